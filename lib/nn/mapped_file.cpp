// Opening and mapping, with the reasons why either may fail.
#include "ferry/nn/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "ferry/nn/file_error.hpp"

namespace ferry::nn {

namespace {

std::string_view fix_for(int reason) {
  switch (reason) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
      return "check the path";
    case EACCES:
    case EPERM:
      return "make it and its folders readable for this user";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENOMEM:
      return "free memory, or raise the limit of address space (ulimit -v)";
    default:
      return "check the disk it is on, or copy it elsewhere";
  }
}

[[noreturn]] void cannot_read(std::filesystem::path const& file) {
  int const reason = errno;
  throw file_error(file, fmt::format("cannot be read: {}", std::generic_category().message(reason)), fix_for(reason));
}

class descriptor {
 public:
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  explicit descriptor(std::filesystem::path const& file) {
    do {
      number_ = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (number_ < 0 && errno == EINTR);
    if (number_ < 0) cannot_read(file);
  }
  descriptor(descriptor const&) = delete;
  descriptor& operator=(descriptor const&) = delete;
  ~descriptor() { ::close(number_); }

  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

}  // namespace

mapped_file::mapped_file(std::filesystem::path const& file) {
  descriptor const opened(file);
  struct stat status {};
  if (::fstat(opened.number(), &status) != 0) cannot_read(file);
  if (S_ISDIR(status.st_mode)) throw file_error(file, "is a directory", "name a file in it");
  if (!S_ISREG(status.st_mode)) throw file_error(file, "is a pipe or a device", "copy what it gives into a file first");
  auto const size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;  // which mmap refuses
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, opened.number(), 0);
  if (address == MAP_FAILED) cannot_read(file);
  bytes_ = {static_cast<std::byte const*>(address), size};
}

mapped_file::mapped_file(mapped_file&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

mapped_file& mapped_file::operator=(mapped_file&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

mapped_file::~mapped_file() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace ferry::nn
