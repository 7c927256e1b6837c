# Finds LibTorch by hand: TorchConfig.cmake enables languages, changes global flags, and ends the configuration where one
# of its own dependencies is missing. Installed with the package, whose ferry::torch links ferry::libtorch.

# ferry_find_libtorch(WHY_NOT): the target ferry::libtorch, or a variable that says why there is none.
function(ferry_find_libtorch why_not)
  set(hints)
  if(Torch_DIR)
    set(hints ${Torch_DIR}/../../..)
  endif()
  find_path(FERRY_TORCH_INCLUDE_DIR torch/csrc/autograd/saved_variable_hooks.h HINTS ${hints} PATH_SUFFIXES include)
  find_path(FERRY_TORCH_API_DIR torch/torch.h HINTS ${FERRY_TORCH_INCLUDE_DIR} PATH_SUFFIXES torch/csrc/api/include
            NO_DEFAULT_PATH)
  # Beside the headers, so that two installations are never mixed.
  get_filename_component(prefix "${FERRY_TORCH_INCLUDE_DIR}" DIRECTORY)
  foreach(library torch torch_cpu c10)
    find_library(FERRY_LIB_${library} ${library} HINTS ${prefix} PATH_SUFFIXES lib lib/${CMAKE_LIBRARY_ARCHITECTURE}
                 NO_DEFAULT_PATH)
  endforeach()
  foreach(part FERRY_TORCH_INCLUDE_DIR FERRY_TORCH_API_DIR FERRY_LIB_torch FERRY_LIB_torch_cpu FERRY_LIB_c10)
    mark_as_advanced(${part})
    if(NOT ${part})
      set(${why_not} "not found (${part}); install libtorch-dev, or name its folder in CMAKE_PREFIX_PATH" PARENT_SCOPE)
      return()
    endif()
  endforeach()

  add_library(ferry::libtorch INTERFACE IMPORTED GLOBAL)
  foreach(folder ${FERRY_TORCH_INCLUDE_DIR} ${FERRY_TORCH_API_DIR})
    if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
      target_include_directories(ferry::libtorch SYSTEM INTERFACE ${folder})
    endif()
  endforeach()
  # libtorch itself holds no symbol, but brings the backends that register themselves: the linker must not drop it.
  target_link_libraries(ferry::libtorch INTERFACE
    "-Wl,--push-state,--no-as-needed,${FERRY_LIB_torch},--pop-state" ${FERRY_LIB_torch_cpu} ${FERRY_LIB_c10})

  # A LibTorch that is there but does not compile or link (another C++ ABI, missing libraries) must not break a build.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/CMakeFiles/ferry_torch_probe.cpp CONTENT [[
#include <c10/util/Exception.h>
#include <string>
namespace torch::autograd {  // declared, because the header takes half a minute
struct Engine {
  static Engine& get_default_engine();
  bool is_checkpoint_valid();
};
}
int main() {
  TORCH_CHECK(torch::autograd::Engine::get_default_engine().is_checkpoint_valid(), std::string("it links"));
}
]])
  set(CMAKE_TRY_COMPILE_CONFIGURATION Debug)
  try_compile(FERRY_TORCH_WORKS ${CMAKE_BINARY_DIR}/CMakeFiles/ferry_torch_probe
              SOURCES ${CMAKE_BINARY_DIR}/CMakeFiles/ferry_torch_probe.cpp
              LINK_LIBRARIES ferry::libtorch CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON OUTPUT_VARIABLE output)
  mark_as_advanced(FERRY_TORCH_WORKS)
  if(NOT FERRY_TORCH_WORKS)
    file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/ferry_torch_probe.log "${output}")
    unset(FERRY_TORCH_WORKS CACHE)
    set(${why_not} "the one in ${prefix} does not compile or link: see CMakeFiles/ferry_torch_probe.log" PARENT_SCOPE)
    return()
  endif()

  find_library(FERRY_LIB_c10_cuda c10_cuda HINTS ${prefix} PATH_SUFFIXES lib NO_DEFAULT_PATH)
  find_library(FERRY_LIB_torch_cuda torch_cuda HINTS ${prefix} PATH_SUFFIXES lib NO_DEFAULT_PATH)
  mark_as_advanced(FERRY_LIB_c10_cuda FERRY_LIB_torch_cuda)
  if(FERRY_HAS_CUDA AND FERRY_LIB_c10_cuda AND FERRY_LIB_torch_cuda)
    target_link_libraries(ferry::libtorch INTERFACE ${FERRY_LIB_torch_cuda} ${FERRY_LIB_c10_cuda})
    set(FERRY_TORCH_HAS_CUDA ON PARENT_SCOPE)
  endif()
  set(FERRY_TORCH_PREFIX ${prefix} PARENT_SCOPE)
endfunction()
