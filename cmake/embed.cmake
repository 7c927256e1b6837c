# Files as part of a program: pages, styles and data stay files that can be read and checked, and the program needs none
# of them when it runs.
#
#   ferry_embed(TARGET FILE SYMBOL)
#
# FILE (relative to the calling CMakeLists.txt) becomes `std::string_view const ferry::embedded::SYMBOL`, declared by
# `#include "embedded/SYMBOL.hpp"`. Made anew whenever the file changes. Any bytes will do; TARGET is of the same folder.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(ferry_embed target file symbol)
    set(script ${CMAKE_CURRENT_FUNCTION_LIST_FILE})
    get_filename_component(input ${file} ABSOLUTE)
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/embedded_files)
    set(output ${folder}/embedded/${symbol})
    add_custom_command(
      OUTPUT ${output}.hpp ${output}.cpp
      COMMAND ${CMAKE_COMMAND} -Dinput=${input} -Doutput=${output} -Dsymbol=${symbol} -P ${script}
      DEPENDS ${input} ${script}
      COMMENT "Embedding ${file}"
      VERBATIM)
    target_sources(${target} PRIVATE ${output}.hpp ${output}.cpp)
    target_include_directories(${target} PRIVATE ${folder})
  endfunction()
  return()
endif()

# As a script, at build time. Characters, not a string literal: compilers limit the length of one.
file(READ ${input} bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR size "${digits} / 2")
set(characters "")
set(at 0)
while(at LESS digits)  # in pieces, because one substitution over everything takes long
  string(SUBSTRING "${bytes}" ${at} 64 line)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," line "${line}")
  string(APPEND characters "${line}\n")
  math(EXPR at "${at} + 64")
endwhile()
get_filename_component(name ${input} NAME)
file(WRITE ${output}.hpp "// ${name}, made by cmake/embed.cmake.
#pragma once

#include <string_view>

namespace ferry::embedded {

extern std::string_view const ${symbol};

}  // namespace ferry::embedded
")
file(WRITE ${output}.cpp "// ${name}, made by cmake/embed.cmake.
#include \"embedded/${symbol}.hpp\"

namespace ferry::embedded {

namespace {
constexpr char characters[] = {${characters}'\\0'};
}

std::string_view const ${symbol}(characters, ${size});

}  // namespace ferry::embedded
")
