# The sanitizers of this build, over a target's C and C++; docs/sanitizers.md says what they cover. Whatever they find ends
# the program, and what the standard library's own checks find as well.
function(ferry_sanitize target)
  if(NOT FERRY_SANITIZE)
    return()
  endif()
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${FERRY_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>")
  target_compile_definitions(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
  target_link_options(${target} PUBLIC -fsanitize=${FERRY_SANITIZE})
  if(FERRY_SANITIZE MATCHES thread)
    # In place of oneTBB, which is not instrumented.
    target_include_directories(${target} BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/tests/tsan)
  endif()
endfunction()

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
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_options}>"
                                           "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_options}>")
  ferry_sanitize(${target})
endfunction()

# What is part of a library, of either kind: compiled once, for both. Only what FERRY_API marks can be seen from outside
# of the shared one, and nobody may put functions of their own in their place.
function(ferry_library_settings target)
  ferry_compile_settings(${target})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON VISIBILITY_INLINES_HIDDEN ON
                                             CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>)
  # Whoever builds this project within another gets what that one links, and no more.
  if(NOT PROJECT_IS_TOP_LEVEL)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# ferry_add_library(TARGET NAME OBJECTS...): the library of these object libraries, as TARGET (static) and TARGET_shared.
# In CMake, here and installed, the two are ferry::NAME_static and ferry::NAME_shared; ferry::NAME is the static one, or
# where BUILD_SHARED_LIBS says so around this project, the shared one.
#
# The static library keeps its symbols out of a shared library that it is linked into, and those of the shared one carry
# a version: so several Ferries can live in one process.
function(ferry_add_library target name)
  set(node FERRY_${PROJECT_VERSION_MAJOR})
  set(script ${PROJECT_BINARY_DIR}/ferry.map)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/ferry.map.in ${script} @ONLY)

  add_library(${target} STATIC)
  target_link_options(${target} INTERFACE LINKER:--exclude-libs,lib${target}.a)
  add_library(${target}_shared SHARED)
  set_target_properties(${target}_shared PROPERTIES
    OUTPUT_NAME ${target} VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    INSTALL_RPATH $ORIGIN LINK_DEPENDS ${script})
  target_link_options(${target}_shared PRIVATE LINKER:--version-script,${script} LINKER:--exclude-libs,ALL
                                               LINKER:--no-undefined-version)
  foreach(kind static shared)
    set(library ${target})
    if(kind STREQUAL "shared")
      set(library ${target}_shared)
    endif()
    foreach(objects IN LISTS ARGN)
      target_sources(${library} PRIVATE $<TARGET_OBJECTS:${objects}>)
    endforeach()
    target_compile_features(${library} INTERFACE cxx_std_20)
    set_target_properties(${library} PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME ${name}_${kind})
    target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
    if(FERRY_SANITIZE)
      target_link_options(${library} PUBLIC -fsanitize=${FERRY_SANITIZE})
    endif()
    add_library(ferry::${name}_${kind} ALIAS ${library})
  endforeach()

  if(BUILD_SHARED_LIBS AND NOT PROJECT_IS_TOP_LEVEL)
    add_library(ferry::${name} ALIAS ${target}_shared)
  else()
    add_library(ferry::${name} ALIAS ${target})
  endif()
  if(NOT PROJECT_IS_TOP_LEVEL)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  if(NOT FERRY_INSTALL AND NOT FERRY_BUILD_TESTS)  # tests look at what it exports
    set_target_properties(${target}_shared PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
endfunction()

# ferry_link_library(TARGET DEPENDENCY... FOUND FILE... INSTALLED NAME...): what both kinds need inside. Whoever links the
# static one needs it as well: FILEs, or targets of this build's own, are then libraries NAME.
function(ferry_link_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FOUND;INSTALLED")
  list(TRANSFORM arg_FOUND REPLACE "(.+)" "$<BUILD_INTERFACE:\\1>")
  list(TRANSFORM arg_INSTALLED REPLACE "(.+)" "$<INSTALL_INTERFACE:\\1>")
  foreach(library ${target} ${target}_shared)
    target_link_libraries(${library} PRIVATE ${arg_UNPARSED_ARGUMENTS} ${arg_FOUND} ${arg_INSTALLED})
  endforeach()
endfunction()
