# What every target of this repository is compiled with. Nothing here is global.
function(ferry_compile_settings target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
  if(FERRY_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(FERRY_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${FERRY_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${FERRY_SANITIZE})
  endif()
endfunction()
