// Saving: the file is replaced whole or not at all, nothing is left behind, and each failure says what to do.
#include "nn/atomic_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferry/nn/file_error.hpp"
#include "support/file_size_limit.hpp"
#include "support/temporary_folder.hpp"

namespace {

namespace fs = std::filesystem;
using ferry::nn::atomic_file;
using ferry::nn::file_error;
using ferry::nn::require_writable;
using ferry::testing::in_quotes;
using ferry::testing::file_size_limit;
using ferry::testing::names_in;
using ferry::testing::read_file;
using ferry::testing::temporary_folder;
using ferry::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::span<std::byte const> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

void save(fs::path const& file, std::string_view text) {
  atomic_file saved(file);
  saved.write(bytes_of(text));
  saved.commit();
}

std::string error_of(auto const& call) { return ferry::testing::message_of<file_error>(call); }

std::string error_of_asking(fs::path const& file) {
  return error_of([&] { require_writable(file); });
}

/// While it lives, the process is nobody in particular: permissions hold for root's tests too.
class without_privilege {
 public:
  without_privilege() : before_(::geteuid()) {
    if (before_ == 0) holds_ = ::seteuid(65534) == 0;
  }
  without_privilege(without_privilege const&) = delete;
  without_privilege& operator=(without_privilege const&) = delete;
  ~without_privilege() { static_cast<void>(::seteuid(before_) == 0); }

  [[nodiscard]] bool holds() const noexcept { return holds_; }

 private:
  uid_t before_;
  bool holds_ = true;
};

TEST(AtomicFile, CreatesAFile) {
  temporary_folder const folder;
  save(folder / "a", "hello");
  EXPECT_EQ(read_file(folder / "a"), "hello");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

TEST(AtomicFile, AppendsWhatIsWritten) {
  temporary_folder const folder;
  atomic_file saved(folder / "a");
  saved.write(bytes_of("one "));
  saved.write({});
  saved.write(bytes_of("two"));
  saved.commit();
  EXPECT_EQ(read_file(folder / "a"), "one two");
}

TEST(AtomicFile, KeepsTheOldFileUntilTheCommit) {
  temporary_folder const folder;
  write_file(folder / "a", "old");
  atomic_file saved(folder / "a");
  saved.write(bytes_of("new"));
  EXPECT_EQ(read_file(folder / "a"), "old");
  saved.commit();
  EXPECT_EQ(read_file(folder / "a"), "new");
}

TEST(AtomicFile, WithoutACommitNothingHappened) {
  temporary_folder const folder;
  write_file(folder / "a", "old");
  {
    atomic_file abandoned(folder / "a");
    abandoned.write(bytes_of("new"));
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

TEST(AtomicFile, TemporariesStandBesideTheTargetAndDoNotMeet) {
  temporary_folder const folder;
  atomic_file first(folder / "a");
  atomic_file second(folder / "a");
  EXPECT_THAT(names_in(folder.path()),
              AllOf(::testing::SizeIs(2), ::testing::Each(StartsWith(".a.tmp-" + std::to_string(::getpid())))));
  first.write(bytes_of("first"));
  second.write(bytes_of("second"));
  second.commit();
  first.commit();
  EXPECT_EQ(read_file(folder / "a"), "first");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

TEST(AtomicFile, TakesTheLongestName) {
  temporary_folder const folder;
  std::string const name(255, 'n');
  save(folder / name, "hello");
  EXPECT_EQ(read_file(folder / name), "hello");
  EXPECT_THAT(error_of_asking(folder / (name + "n")), EndsWith("use a shorter name"));
}

TEST(AtomicFile, TakesANameWithoutAFolder) {
  temporary_folder const folder;
  fs::path const before = fs::current_path();
  fs::current_path(folder.path());
  save("a", "hello");
  fs::current_path(before);
  EXPECT_EQ(read_file(folder / "a"), "hello");
}

TEST(AtomicFile, KeepsTheModeOfTheOldFile) {
  temporary_folder const folder;
  write_file(folder / "a", "old");
  fs::permissions(folder / "a", fs::perms{0640});
  save(folder / "a", "new");
  EXPECT_EQ(fs::status(folder / "a").permissions(), fs::perms{0640});
}

TEST(AtomicFile, WritesThroughLinks) {
  temporary_folder const folder;
  fs::create_directory(folder / "sub");
  write_file(folder / "sub/real", "old");
  fs::create_symlink("sub/middle", folder / "link");
  fs::create_symlink(folder / "sub/real", folder / "sub/middle");
  save(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::is_symlink(folder / "sub/middle"));
  EXPECT_EQ(read_file(folder / "sub/real"), "new");
}

TEST(AtomicFile, WritesThroughALinkToNothing) {
  temporary_folder const folder;
  fs::create_symlink("new", folder / "link");
  save(folder / "link", "hello");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "new"), "hello");
}

TEST(AtomicFile, RefusesLinksInACircle) {
  temporary_folder const folder;
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  EXPECT_THAT(error_of_asking(folder / "a"),
              EndsWith("levels of symbolic links; remove the symbolic links that lead to each other"));
}

TEST(AtomicFile, AFullDiskLeavesTheOldFile) {
  temporary_folder const folder;
  write_file(folder / "a", "old");
  std::string error;
  std::string error_of_commit;
  {
    file_size_limit const limit(1000);
    atomic_file saved(folder / "a");
    saved.write(bytes_of(std::string(600, 'x')));
    error = error_of([&] { saved.write(bytes_of(std::string(600, 'x'))); });  // in part, then not
    error_of_commit = error_of([&] { saved.commit(); });
  }
  EXPECT_EQ(error, in_quotes(folder / "a") +
                       ": cannot be saved: File too large; raise the limit of file sizes (ulimit -f), or save on "
                       "another file system");
  EXPECT_THAT(error_of_commit, HasSubstr("cannot be saved"));
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

TEST(AtomicFile, AFolderThatVanishesFailsTheCommit) {
  temporary_folder const folder;
  fs::create_directory(folder / "sub");
  atomic_file saved(folder / "sub/a");
  fs::remove_all(folder / "sub");
  EXPECT_THAT(error_of([&] { saved.commit(); }), HasSubstr("No such file or directory"));
}

TEST(AtomicFile, ATargetThatBecameADirectoryFailsTheCommit) {
  temporary_folder const folder;
  atomic_file saved(folder / "a");
  fs::create_directory(folder / "a");
  EXPECT_THAT(error_of([&] { saved.commit(); }), HasSubstr("Is a directory"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

TEST(RequireWritable, LeavesNoTrace) {
  temporary_folder const folder;
  require_writable(folder / "new");
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
  write_file(folder / "a", "old");
  require_writable(folder / "a");
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

TEST(RequireWritable, RefusesAMissingFolder) {
  temporary_folder const folder;
  EXPECT_EQ(error_of_asking(folder / "sub/a"), in_quotes(folder / "sub/a") +
                                                   ": cannot be saved: No such file or directory; create the folder " +
                                                   in_quotes(folder / "sub") + " first");
}

TEST(RequireWritable, RefusesAFileForAFolder) {
  temporary_folder const folder;
  write_file(folder / "file", "");
  EXPECT_THAT(error_of_asking(folder / "file/a"), HasSubstr("cannot be saved: Not a directory"));
}

TEST(RequireWritable, RefusesADirectory) {
  temporary_folder const folder;
  EXPECT_EQ(error_of_asking(folder.path()),
            in_quotes(folder.path()) + ": cannot be saved: it is a directory; name a file in it");
  EXPECT_THAT(error_of_asking(folder.path().string() + "/"), HasSubstr("it is a directory"));
  EXPECT_THAT(error_of_asking(""), HasSubstr("cannot be saved"));
}

TEST(RequireWritable, RefusesAPipe) {
  temporary_folder const folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of_asking(folder / "pipe"), HasSubstr("it is a pipe or a device; name a regular file"));
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
}

TEST(RequireWritable, RefusesAFolderOfOthers) {
  temporary_folder const folder;
  fs::permissions(folder.path(), fs::perms{0555});
  without_privilege const ordinary;
  if (!ordinary.holds()) GTEST_SKIP() << "cannot give up root's privilege here";
  EXPECT_THAT(error_of_asking(folder / "a"), AllOf(HasSubstr("cannot be saved: Permission denied; make '"),
                                                   EndsWith("writable for this user, or save elsewhere")));
}

TEST(RequireWritable, RefusesAReadOnlyFile) {
  temporary_folder const folder;
  fs::permissions(folder.path(), fs::perms{0777});
  write_file(folder / "a", "old");
  fs::permissions(folder / "a", fs::perms{0444});
  without_privilege const ordinary;
  if (!ordinary.holds()) GTEST_SKIP() << "cannot give up root's privilege here";
  EXPECT_THAT(error_of_asking(folder / "a"),
              EndsWith("the file there is read-only; make it writable, or save elsewhere"));
}

TEST(FileError, IsOneLineWhateverTheName) {
  std::string const message = error_of_asking("/nowhere/a\nb\x1b[31m/c");
  EXPECT_THAT(message, AllOf(HasSubstr("a?b?[31m"), Not(HasSubstr("\n")), Not(HasSubstr("\x1b"))));
}

}  // namespace
