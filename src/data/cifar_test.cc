#include "data/cifar.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "data/open.h"
#include "data/samples_fixture.h"

namespace tutti::data {
namespace {

using namespace fixture;

// Record i has label (i + shift) % 10; pixel p of channel c is (i + 50 * c + p) % 256.
std::string records(std::size_t count, std::size_t shift = 0) {
  std::string file;
  for (std::size_t i = 0; i < count; ++i) {
    file += static_cast<char>((i + shift) % 10);
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t p = 0; p < 1024; ++p) file += static_cast<char>(i + 50 * c + p);
    }
  }
  return file;
}

class Cifar : public ::testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& content) {
    return write(scratch_.path() / "cifar10" / name, content).string();
  }
  std::string error(const std::string& content) {
    const std::vector files = {put("bad.bin", content)};
    return error_of<DataError>([&] { CifarImages(files, 10); });
  }
  std::string path(const std::string& name) const { return (scratch_.path() / "cifar10" / name).string(); }

  ScratchFolder scratch_;
  DatasetInfo info_ = find_dataset("cifar10");
};

TEST_F(Cifar, RecordsOfSeveralFilesFollowOneAnother) {
  const std::vector files = {put("a.bin", records(4)), put("b.bin", records(3, 5))};
  const CifarImages set(files, 10);
  ASSERT_EQ(set.size(), 7u);
  EXPECT_EQ(set.label(3), 3);
  EXPECT_EQ(set.label(4), 5);
  ASSERT_EQ(set.pixels(6).size(), 3072u);
  EXPECT_EQ(set.pixels(6)[0], 2);
  EXPECT_EQ(set.pixels(6)[2 * 1024 + 7], 2 + 100 + 7);
}

TEST_F(Cifar, EachChannelIsNormalisedByItsOwnStatistics) {
  const auto sources = sources_of({put("data_batch_1.bin", records(4))}, {put("test_batch.bin", records(2))});
  const BothParts parts(*info_.format, sources, info_.format->native_fields({}));
  const auto pixels = decoded<float>(parts[Part::training], 0, {3});
  ASSERT_EQ(pixels.size(), 3072u);
  EXPECT_FLOAT_EQ(pixels[9], (12 / 255.0F - 0.4914F) / 0.2470F);
  EXPECT_FLOAT_EQ(pixels[1024 + 9], (62 / 255.0F - 0.4822F) / 0.2435F);
  EXPECT_FLOAT_EQ(pixels[2048 + 9], (112 / 255.0F - 0.4465F) / 0.2616F);
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::test], 1), (std::vector<std::int64_t>{0, 1}));
}

TEST_F(Cifar, TrainsOnTheBatchesThatAreThere) {
  put("data_batch_1.bin", records(4));
  put("data_batch_3.bin", records(3));
  put("test_batch.bin", records(2));
  const std::vector roots = {scratch_.path()};
  const auto wanted = info_.format->native_fields({});
  const auto plain = prepare(info_, locate(info_, roots), wanted);
  EXPECT_EQ(plain.files[Part::training], (std::vector{path("data_batch_1.bin"), path("data_batch_3.bin")}));
  EXPECT_EQ(open(info_, plain.files[Part::training], wanted)->size(), 7u);
}

TEST_F(Cifar, NeedsTheFirstBatch) {
  put("data_batch_2.bin", records(3));
  put("test_batch.bin", records(2));
  const std::vector roots = {scratch_.path()};
  EXPECT_NE(error_of<DataError>([&] { locate(info_, roots); }).find("cifar10 has no data_batch_1.bin;"),
            std::string::npos);
}

TEST_F(Cifar, RefusesALengthThatIsNoMultipleOfARecord) {
  EXPECT_EQ(error(records(2).substr(1)), path("bad.bin") + ": 6145 bytes, expected a multiple of 3073");
  EXPECT_EQ(error(""), path("bad.bin") + ": 0 bytes, expected a multiple of 3073");
}

TEST_F(Cifar, RefusesALabelOutOfRange) {
  std::string bad = records(3);
  bad[3073 * 2] = 10;
  EXPECT_EQ(error(bad), path("bad.bin") + ": offset 6146: label 10, expected 0 to 9");
}

}  // namespace
}  // namespace tutti::data
