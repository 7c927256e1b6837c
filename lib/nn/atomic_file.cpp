// The calls of an atomic save, and what to do about each way they fail.
#include "nn/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "ferry/nn/file_error.hpp"

namespace ferry::nn {

namespace {

std::filesystem::path folder_of(std::filesystem::path const& file) {
  return file.has_parent_path() ? file.parent_path() : ".";
}

std::string fix_for(int reason, std::filesystem::path const& target) {
  switch (reason) {
    case ENOSPC:
    case EDQUOT:
      return fmt::format("free space in '{}', or save elsewhere", folder_of(target).string());
    case EFBIG:
      return "raise the limit of file sizes (ulimit -f), or save on another file system";
    case EACCES:
    case EPERM:
    case EROFS:
      return fmt::format("make '{}' writable for this user, or save elsewhere", folder_of(target).string());
    case ENOENT:
    case ENOTDIR:
      return fmt::format("create the folder '{}' first", folder_of(target).string());
    case ENAMETOOLONG:
      return "use a shorter name";
    case ELOOP:
      return "remove the symbolic links that lead to each other";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    default:
      return "check the disk it is on, or save elsewhere";
  }
}

[[noreturn]] void cannot_save(std::filesystem::path const& target, int reason) {
  std::error_code unknown;
  auto const folder = folder_of(target);
  if (reason == ENOENT && std::filesystem::is_directory(folder, unknown)) {  // as of /proc
    throw file_error(target, fmt::format("cannot be saved: no file can be made in '{}'", folder.string()),
                     "save elsewhere");
  }
  throw file_error(target, fmt::format("cannot be saved: {}", std::generic_category().message(reason)),
                   fix_for(reason, target));
}

template <typename Call>
auto uninterrupted(Call const& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

/// Where the links end, whether or not something is there: renaming onto a link would replace the link.
std::filesystem::path followed(std::filesystem::path const& target) {
  constexpr int most_links = 40;  // as the kernel has it
  std::filesystem::path end = target;
  for (int links = 0;; ++links) {
    std::error_code problem;
    auto const next = std::filesystem::read_symlink(end, problem);
    if (problem) return end;
    if (links == most_links) cannot_save(target, ELOOP);
    end = folder_of(end) / next;  // `next` alone if it is absolute
  }
}

}  // namespace

atomic_file::atomic_file(std::filesystem::path const& target) : target_(followed(target)) {
  struct stat old {};
  bool const exists = ::stat(target_.c_str(), &old) == 0;
  if (!exists && errno != ENOENT) cannot_save(target, errno);
  if (target_.filename().empty() || (exists && S_ISDIR(old.st_mode))) {
    throw file_error(target, "cannot be saved: it is a directory", "name a file in it");
  }
  if (exists && !S_ISREG(old.st_mode)) {
    throw file_error(target, "cannot be saved: it is a pipe or a device", "name a regular file, or a new one");
  }
  // The folder alone decides whether it can be replaced, but whoever made it read-only wants to keep it.
  if (exists && ::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0) {
    throw file_error(target, "cannot be saved: the file there is read-only", "make it writable, or save elsewhere");
  }
  create_temporary();
  if (exists) static_cast<void>(::fchmod(descriptor_, old.st_mode & 0777));
}

// A process that was killed may have left a temporary, and a later process may have its number: names are tried
// until one is new. The name is cut, because the whole must not be longer than a name may be.
void atomic_file::create_temporary() {
  constexpr std::size_t longest_name = 200;
  std::string const name = fmt::format(".{}.tmp-{}", target_.filename().string().substr(0, longest_name), ::getpid());
  for (int attempt = 0;; ++attempt) {
    temporary_ = folder_of(target_) / (attempt == 0 ? name : fmt::format("{}-{}", name, attempt));
    descriptor_ =
        uninterrupted([&] { return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
    if (descriptor_ >= 0) return;
    if (errno != EEXIST) cannot_save(target_, errno);
  }
}

atomic_file::~atomic_file() { discard(); }

void atomic_file::write(std::span<std::byte const> bytes) {
  while (!bytes.empty()) {
    auto const written = uninterrupted([&] { return ::write(descriptor_, bytes.data(), bytes.size()); });
    if (written < 0) fail();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void atomic_file::commit() {
  if (uninterrupted([&] { return ::fsync(descriptor_); }) != 0) fail();
  // Network file systems tell of a full disk only now. Interrupted or not, the descriptor is gone.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  temporary_.clear();

  int const folder = uninterrupted([&] { return ::open(folder_of(target_).c_str(), O_RDONLY | O_CLOEXEC); });
  if (folder < 0) return;  // one that may be written but not read: the new name is kept when the kernel gets to it
  int const synced = uninterrupted([&] { return ::fsync(folder); });
  int const reason = errno;
  ::close(folder);
  // EINVAL: a file system that has no such thing.
  if (synced != 0 && reason != EINVAL) cannot_save(target_, reason);
}

void atomic_file::fail() {
  int const reason = errno;
  discard();
  cannot_save(target_, reason);
}

void atomic_file::discard() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void require_writable(std::filesystem::path const& target) { static_cast<void>(atomic_file(target)); }

}  // namespace ferry::nn
