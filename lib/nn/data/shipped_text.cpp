// Embeds the file FERRY_SHIPPED_TEXT names into read-only data. The assembler does it: a literal of this length is
// more than the standard promises, and an array of numbers takes the compiler seconds.
#include "nn/data/shipped_text.hpp"

#include <cstdint>

// Hidden: the symbols are global for the linker's optimiser, not for the users of a shared library.
asm(R"(
  .pushsection .rodata, "a", %progbits
  .global ferry_shipped_text_begin
  .hidden ferry_shipped_text_begin
ferry_shipped_text_begin:
  .incbin ")" FERRY_SHIPPED_TEXT R"("
ferry_shipped_text_end:
  .balign 8
  .global ferry_shipped_text_bytes
  .hidden ferry_shipped_text_bytes
ferry_shipped_text_bytes:
  .quad ferry_shipped_text_end - ferry_shipped_text_begin
  .popsection
)");

extern "C" {
extern char const ferry_shipped_text_begin[];
extern std::uint64_t const ferry_shipped_text_bytes;
}

namespace ferry::nn {

std::string_view shipped_text() noexcept { return {ferry_shipped_text_begin, ferry_shipped_text_bytes}; }

}  // namespace ferry::nn
