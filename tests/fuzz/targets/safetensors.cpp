// Weights from files, as --init reads them. The reader maps files: this one lies in memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ferry/nn/file_error.hpp"
#include "ferry/nn/safetensors.hpp"
#include "fuzz.hpp"

namespace {

/// A file without a name, opened once.
int scratch_file() {
  static int const file = memfd_create("safetensors", MFD_CLOEXEC);
  ferry::fuzz::require(file >= 0, "there is memory for a file");
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace ferry;
  int const file = scratch_file();
  fuzz::require(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size), "it is written");
  try {
    nn::safetensors_file const read("/proc/self/fd/" + std::to_string(file));
    std::size_t bytes = 0;
    unsigned sum = 0;
    for (auto const& tensor : read.tensors()) {
      bytes += tensor.bytes.size();
      for (auto const byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);  // each may be read
      fuzz::require(read.find(tensor.name) != nullptr, "a tensor is found by its name");
      std::size_t const each = tensor.dtype == "F32" ? 4 : tensor.dtype == "F16" || tensor.dtype == "BF16" ? 2 : 0;
      if (each == 0) continue;
      std::vector<float> values(tensor.bytes.size() / each);
      read.copy_floats(tensor, values);
    }
    fuzz::require(bytes <= size && (sum == 0 || bytes > 0), "tensors lie inside the file");
  } catch (nn::file_error const& refusal) {
    fuzz::require(*refusal.what() != '\0', "a refusal says why");
  }
  return 0;
}
