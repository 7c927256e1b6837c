# Whether there is a LibTorch to adapt to: Debian's libtorch-dev, or the one inside a Python wheel or a download, whose
# folder is given by CMAKE_PREFIX_PATH or Torch_DIR.
#
# Sets FERRY_HAS_TORCH and FERRY_TORCH_HAS_CUDA, and makes the target ferry::libtorch.

include(${CMAKE_CURRENT_LIST_DIR}/find_libtorch.cmake)

# Inside another project only if that one asks for it.
set(ferry_torch_initially OFF)
if(PROJECT_IS_TOP_LEVEL)
  set(ferry_torch_initially AUTO)
endif()
set(FERRY_TORCH ${ferry_torch_initially} CACHE STRING "Build the LibTorch adapter: AUTO where LibTorch is found, ON, OFF")
set_property(CACHE FERRY_TORCH PROPERTY STRINGS AUTO ON OFF)
if(NOT FERRY_TORCH MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "FERRY_TORCH=${FERRY_TORCH}: give AUTO, ON or OFF")
endif()

set(FERRY_HAS_TORCH OFF)
set(FERRY_TORCH_HAS_CUDA OFF)

if(FERRY_TORCH STREQUAL "OFF")
  message(STATUS "LibTorch: FERRY_TORCH=OFF; building without the adapter")
else()
  set(ferry_torch_missing "")
  ferry_find_libtorch(ferry_torch_missing)
  if(NOT ferry_torch_missing)
    set(FERRY_HAS_TORCH ON)
    message(STATUS "LibTorch: ${FERRY_TORCH_PREFIX}, CUDA tensors ${FERRY_TORCH_HAS_CUDA}")
  elseif(FERRY_TORCH STREQUAL "ON")
    message(FATAL_ERROR "FERRY_TORCH=ON, but LibTorch is ${ferry_torch_missing}; or set FERRY_TORCH=AUTO")
  else()
    message(STATUS "LibTorch: ${ferry_torch_missing}; building without the adapter")
  endif()
endif()
