#include "base/file.h"

#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "base/scratch_folder.h"

namespace tutti {
namespace {

TEST(File, AtomicWriteReplacesAndLeavesNothingElse) {
  const ScratchFolder folder;
  const auto path = folder.path() / "a.txt";
  write_file_atomically(path, std::string_view("old"));
  write_file_atomically(path, std::string_view("new content"));
  EXPECT_EQ(read_file(path), "new content");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(File, PiecesAreWrittenOneAfterTheOther) {
  const ScratchFolder folder;
  const std::string a = "one ", c = "two";
  const std::array pieces{std::as_bytes(std::span(a)), std::span<const std::byte>(),
                          std::as_bytes(std::span(c))};
  write_file_atomically(folder.path() / "p", pieces);
  EXPECT_EQ(read_file(folder.path() / "p"), "one two");
}

TEST(File, FailedWriteNamesThePathAndLeavesNothing) {
  try {
    write_file_atomically("/proc/no-such-folder/x", std::string_view("y"));
    FAIL();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("/proc/no-such-folder/x"), std::string::npos);
  }
}

TEST(File, MissingFileNamesThePath) {
  try {
    map_file("/no/such/file");
    FAIL();
  } catch (const DataError& e) {
    EXPECT_NE(std::string(e.what()).find("/no/such/file"), std::string::npos);
  }
}

TEST(File, EmptyFileMapsToNothing) {
  const ScratchFolder folder;
  write_file_atomically(folder.path() / "e", std::string_view());
  EXPECT_TRUE(map_file(folder.path() / "e").bytes().empty());
}

TEST(File, FolderIsNoFile) {
  EXPECT_THROW(map_file("/"), DataError);
}

TEST(File, TreesAreRemovedAndLinksAreNotFollowed) {
  const ScratchFolder folder;
  const auto tree = folder.path() / "tree";
  std::filesystem::create_directories(tree / "a" / "b");
  write_file_atomically(tree / "a" / "file", std::string_view("x"));
  write_file_atomically(folder.path() / "kept", std::string_view("y"));
  std::filesystem::create_symlink(folder.path(), tree / "a" / "up");
  remove_tree(tree);
  EXPECT_FALSE(std::filesystem::exists(tree));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "kept"));
  EXPECT_NO_THROW(remove_tree(tree));  // what is not there is fine
}

}  // namespace
}  // namespace tutti
