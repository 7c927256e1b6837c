# What makes building quicker and changes nothing of what is built: a compiler cache where there is one, headers of others
# that are parsed once for many sources, and tests that are compiled several at a time. Of this repository's own builds alone:
# whoever builds Ferry within their project has their own ways, and shows that every source includes what it uses.
option(FERRY_PRECOMPILE "Parse the standard library's and other projects' headers once for each large target"
       ${PROJECT_IS_TOP_LEVEL})
option(FERRY_UNITE "Compile the tests' sources several at a time" ${PROJECT_IS_TOP_LEVEL})
option(FERRY_CCACHE "Compile through ccache where it is found" ${PROJECT_IS_TOP_LEVEL})

# By relative paths, so that clones of the repository share what they compiled. ccache wants to be told that precompiled headers
# are no secret to it.
if(FERRY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(FERRY_CCACHE_PROGRAM ccache)
  mark_as_advanced(FERRY_CCACHE_PROGRAM)
  if(FERRY_CCACHE_PROGRAM)
    message(STATUS "Compiling through ${FERRY_CCACHE_PROGRAM}")
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${FERRY_CCACHE_PROGRAM})
    set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
endif()

# GCC counts on machines with little memory and collects garbage for a tenth of its time.
if(PROJECT_IS_TOP_LEVEL)
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-heapsize=1048576 --param ggc-min-expand=300>")
endif()

# ferry_precompile(TARGET [HEADER...]): the headers that most of its sources include, and these.
function(ferry_precompile target)
  if(NOT FERRY_PRECOMPILE)
    return()
  endif()
  set(headers algorithm array atomic chrono cmath cstddef cstdint functional limits map memory mutex optional span string
              string_view thread unordered_map utility vector fmt/format.h ${ARGN})
  list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
  target_precompile_headers(${target} PRIVATE ${headers})
  target_compile_options(${target} PRIVATE
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fpch-preprocess>)
endfunction()

# ferry_unite(TARGET [SOURCE...]): its sources are compiled eight at a time, but for these, which are compiled alone: they
# name things of their own as their neighbours do.
function(ferry_unite target)
  if(NOT FERRY_UNITE)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow>)  # of a neighbour's names
  if(ARGN)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
