# What every target of this repository is compiled with. Nothing here is global.
function(ferry_compile_settings target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  set(cxx_options -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
  set(cuda_options -std=c++20 -Xcompiler=-Wall,-Wextra)  # CMake 3.25 knows no C++20 for nvcc
  if(FERRY_WERROR)
    list(APPEND cxx_options -Werror)
    list(APPEND cuda_options "SHELL:-Werror all-warnings" -Xcompiler=-Werror)
  endif()
  if(FERRY_SANITIZE)
    list(APPEND cxx_options -fsanitize=${FERRY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${FERRY_SANITIZE})
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_options}>"
                                           "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_options}>")
endfunction()
