# Whether there is a CUDA toolkit, and what the CUDA backend is made of.
#
# Sets FERRY_HAS_CUDA. The lists of sources are used twice: with the toolkit, and by the tests with an emulated runtime,
# which needs no toolkit.

set(FERRY_CUDA_DEVICE_SOURCES
  ${PROJECT_SOURCE_DIR}/lib/device/cuda_calibration.cpp
  ${PROJECT_SOURCE_DIR}/lib/device/cuda_device.cpp
  ${PROJECT_SOURCE_DIR}/lib/device/cuda_error.cpp
  ${PROJECT_SOURCE_DIR}/lib/device/cuda_memory.cpp
  ${PROJECT_SOURCE_DIR}/lib/device/cuda_presence.cpp
  ${PROJECT_SOURCE_DIR}/lib/device/cuda_stream.cpp)

set(FERRY_CUDA_NN_SOURCES
  ${PROJECT_SOURCE_DIR}/lib/nn/attention_cuda.cpp
  ${PROJECT_SOURCE_DIR}/lib/nn/cublas_library.cpp
  ${PROJECT_SOURCE_DIR}/lib/nn/gemm_cuda.cpp
  ${PROJECT_SOURCE_DIR}/lib/nn/kernels/kernels.cu
  ${PROJECT_SOURCE_DIR}/lib/nn/ops_cuda.cpp)

if(NOT FERRY_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "FERRY_CUDA=${FERRY_CUDA}: give AUTO, ON or OFF")
endif()

set(FERRY_HAS_CUDA OFF)
if(NOT FERRY_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(FERRY_NVCC nvcc PATHS /usr/local/cuda/bin)
    if(FERRY_NVCC)
      set(CMAKE_CUDA_COMPILER ${FERRY_NVCC})
    endif()
  endif()
  # For GPUs of compute capability 8.0 and 9.0, and as PTX for newer ones.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit 12.4 QUIET)
  endif()
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
    set(FERRY_HAS_CUDA ON)
    message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(FERRY_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FERRY_CUDA=ON, but no CUDA toolkit of 12.4 or newer was found: install one, put nvcc on PATH, "
                        "or set FERRY_CUDA=AUTO")
  else()
    message(STATUS "CUDA: no toolkit of 12.4 or newer found; building without it (the tests emulate it)")
  endif()
else()
  message(STATUS "CUDA: FERRY_CUDA=OFF; building without it (the tests emulate it)")
endif()
if(FERRY_NVTX AND NOT FERRY_HAS_CUDA)
  message(FATAL_ERROR "FERRY_NVTX=ON needs the CUDA toolkit; set FERRY_CUDA=ON, or FERRY_NVTX=OFF")
endif()
