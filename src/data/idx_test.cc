#include "data/idx.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"

namespace tutti::data {
namespace {

using namespace fixture;

class Idx : public ::testing::Test {
 protected:
  std::filesystem::path put(const std::string& name, std::string_view content) {
    return fixture::write(scratch_.path() / name, content);
  }
  std::string error_in(const std::filesystem::path& path, IdxKind kind = IdxKind::images,
                       std::size_t limit = kIdxLimit) {
    std::string text = error_of<DataError>([&] { IdxFile::open(path, kind, limit); });
    EXPECT_EQ(text.find('\n'), std::string::npos);
    const std::string folder = scratch_.path().string() + "/";
    if (const auto at = text.find(folder); at != std::string::npos) text.erase(at, folder.size());
    return text;
  }

  ScratchFolder scratch_;
};

TEST_F(Idx, ReadsImagesPlainAndGzipped) {
  for (const char* name : {"images", "images.gz"}) {
    const IdxFile file = IdxFile::open(put(name, images_idx(5)), IdxKind::images);
    EXPECT_EQ(file.count(), 5u);
    EXPECT_EQ(file.rows(), 3u);
    EXPECT_EQ(file.cols(), 2u);
    ASSERT_EQ(file.items().size(), 30u);
    EXPECT_EQ(file.items()[6 * 2 + 1], 15);
  }
}

TEST_F(Idx, ReadsLabelsPlainAndGzipped) {
  for (const char* name : {"labels", "labels.gz"}) {
    const IdxFile file = IdxFile::open(put(name, labels_idx(3)), IdxKind::labels);
    EXPECT_EQ(std::vector<int>(file.items().begin(), file.items().end()), (std::vector<int>{0, 1, 2}));
  }
}

TEST_F(Idx, NamesAMissingFile) {
  EXPECT_EQ(error_in(scratch_.path() / "none"), "cannot read none: No such file or directory");
}

TEST_F(Idx, RefusesAnotherMagic) {
  EXPECT_EQ(error_in(put("f", big_endian(0x802) + images_idx(1))),
            "f: offset 0: magic 0x00000802, expected 0x00000803 (images) or 0x00000801 (labels)");
  EXPECT_EQ(error_in(put("f", labels_idx(30))),
            "f: offset 0: magic 0x00000801, expected 0x00000803 (images)");
  EXPECT_EQ(error_in(put("f.gz", labels_idx(30))),
            "f.gz (decoded): offset 0: magic 0x00000801, expected 0x00000803 (images)");
}

TEST_F(Idx, RefusesDimensionsOutOfRange) {
  EXPECT_EQ(error_in(put("f", images_idx(0))), "f: offset 4: 0 items, expected at least 1");
  EXPECT_EQ(error_in(put("f", images_idx(4, 0, 2))), "f: offset 8: 0 rows an image, expected 1 to 4096");
  const std::string header = big_endian(0x803) + big_endian(1) + big_endian(28);
  EXPECT_EQ(error_in(put("f", header + big_endian(5000))),
            "f: offset 12: 5000 columns an image, expected 1 to 4096");
}

TEST_F(Idx, RefusesEveryTruncationAndAnExtraByte) {
  const std::string whole = images_idx(2);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_NE(error_in(put("f", whole.substr(0, n))), "") << n;
    EXPECT_NE(error_in(put("f.gz", whole.substr(0, n))), "") << n;
  }
  EXPECT_EQ(error_in(put("f", whole.substr(0, 20))),
            "f: offset 20: the file has 20 bytes, expected 28 for 2 items of 3x2");
  EXPECT_EQ(error_in(put("f", whole + "x")),
            "f: offset 28: the file has 29 bytes, expected 28 for 2 items of 3x2");
  EXPECT_EQ(error_in(put("f.gz", whole + "x")), "f.gz (decoded): offset 28: more than the expected 28 bytes");
}

TEST_F(Idx, RefusesTruncatedAndDamagedGzip) {
  const std::string packed = gzipped(images_idx(20));
  const auto path = scratch_.path() / "f.gz";
  write_file_atomically(path, packed.substr(0, packed.size() - 3));
  EXPECT_NE(error_in(path).find("the file ends inside the gzip trailer"), std::string::npos);
  std::string damaged = packed;
  damaged[packed.size() / 2] = static_cast<char>(damaged[packed.size() / 2] ^ 16);
  write_file_atomically(path, damaged);
  EXPECT_NE(error_in(path), "");
  write_file_atomically(path, std::string("not gzip at all"));
  EXPECT_EQ(error_in(path), "f.gz: offset 0: not a gzip file: it does not begin with 1f 8b");
}

TEST_F(Idx, RefusesAHeaderThatPromisesTooMuchBeforeTakingMemory) {
  const std::string header = big_endian(0x803) + big_endian(0xffffffff) + big_endian(4096) + big_endian(4096);
  EXPECT_NE(error_in(put("f.gz", header)).find("offset 4: the header promises"), std::string::npos);
  EXPECT_EQ(error_in(put("f.gz", big_endian(0x801) + big_endian(1'000'000)))
                .find("f.gz (decoded): offset 4: the "
                      "header promises 1000008 bytes, which"),
            0u);
  EXPECT_EQ(error_in(put("f.gz", images_idx(100)), IdxKind::images, 500),
            "f.gz (decoded): offset 4: the header promises 616 bytes, the limit is 500");
}

TEST_F(Idx, PreparedPlainFileStandsForItself) {
  const auto path = put("labels", labels_idx(3));
  const PlainFile plain = prepare_idx(path);
  EXPECT_EQ(plain.path, path);
  EXPECT_FALSE(plain.keep_open);
}

TEST_F(Idx, PreparedGzipIsReadByAnotherProgram) {
  const std::string content = images_idx(4);
  const PlainFile plain = prepare_idx(put("images.gz", content));
  EXPECT_EQ(IdxFile::open(plain.path, IdxKind::images).count(), 4u);
  const auto copy = scratch_.path() / "copy";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::execlp("cp", "cp", plain.path.c_str(), copy.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(read_file(copy), content);
}

}  // namespace
}  // namespace tutti::data
