#include "data/folder_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/crypto.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "data/image_samples.h"
#include "data/jpeg_png_fixture.h"
#include "data/open.h"
#include "data/own_data.h"
#include "data/png.h"
#include "data/samples_fixture.h"

namespace tutti::data {
namespace {

using namespace fixture;
using Pixels = std::vector<std::uint8_t>;

class ImagesOfOnesOwn : public ::testing::Test {
 protected:
  // Image i of a class is all of one grey: 40 * i for dark, 255 - 40 * i for light.
  ImagesOfOnesOwn() {
    for (std::uint32_t i = 0; i < 4; ++i) {
      put(fmt::format("dark/{}.png", i), grey(static_cast<std::uint8_t>(40 * i)));
      put(fmt::format("light/{}.png", i), grey(static_cast<std::uint8_t>(255 - 40 * i)));
    }
  }
  std::string grey(std::uint8_t value, std::uint32_t width = 6, std::uint32_t height = 4) const {
    return encode_png(Pixels(std::size_t{width} * height, value), width, height);
  }
  void put(const std::string& path, const std::string& file) { write(root() / path, file); }
  std::filesystem::path root() const { return scratch_.path() / "images"; }

  DatasetInfo info() const { return find_dataset("images:" + root().string(), {.test_share = 0.25}); }
  LocatedDataset located() const { return locate(info(), std::vector<std::filesystem::path>{"/nowhere"}); }
  std::vector<Field> native() const { return native_fields(info(), located()); }
  PlainFiles prepared(const std::vector<Field>& wanted) const { return prepare(info(), located(), wanted); }

  // What digest_of_data makes of it.
  std::string digest() const {
    const auto plain = prepared(native());
    std::string all;
    for (const Part part : kParts) all += read_file(plain.files[part].at(0)) + "|";
    return sha256_hex(as_bytes(all));
  }
  std::string error() const {
    return error_of<DataError>([&] { prepared(native()); });
  }
  ScratchFolder scratch_;
};

TEST_F(ImagesOfOnesOwn, HaveTheSizeThatMostHaveAndColourIfOneHas) {
  EXPECT_EQ(text_of(native()), "image 1x4x6, label below 2");
  put("light/large.png", grey(9, 60, 40));
  EXPECT_EQ(text_of(native()), "image 1x4x6, label below 2");
  put("train/dark/1.jpg", encode_jpeg(Pixels(8 * 8 * 3), 8, 8, 3));
  put("train/light/1.png", grey(1, 8, 8));
  put("test/light/1.png", grey(1));
  EXPECT_EQ(text_of(native()), "image 3x8x8, label below 2");
  EXPECT_EQ(names_of(info(), located()), (std::vector<std::string>{"dark", "light"}));
}

TEST_F(ImagesOfOnesOwn, AreGivenWithMeanZeroAndDeviationOneOfTheTrainingPart) {
  const auto plain = prepared(native());
  const auto training = open(info(), plain.files[Part::training], native());
  const auto test = open(info(), plain.files[Part::test], native());
  EXPECT_EQ(training->size(), 6u);
  EXPECT_EQ(test->size(), 2u);
  EXPECT_EQ(decoded<std::int64_t>(*training, 1), (std::vector<std::int64_t>{0, 0, 0, 1, 1, 1}));
  double sum = 0;
  double squares = 0;
  const auto numbers = decoded<float>(*training, 0);
  for (const float x : numbers) {
    sum += x;
    squares += double{x} * x;
  }
  const auto n = static_cast<double>(numbers.size());
  EXPECT_NEAR(sum / n, 0, 1e-5);
  EXPECT_NEAR(std::sqrt(squares / n), 1, 1e-5);
}

TEST_F(ImagesOfOnesOwn, AreGivenInAnySizeAndAsPixelsToWhoAsks) {
  put("dark/colour.jpg", encode_jpeg(Pixels(8 * 8 * 3, 100), 8, 8, 3));
  auto wanted = image_fields({3, 10, 7}, 2);
  wanted[0].name = kPixels;
  const auto plain = prepared(wanted);
  std::vector<float> seen;
  for (const Part part : kParts) {
    const auto samples = open(info(), plain.files[part], wanted);
    for (std::uint32_t i = 0; i < samples->size(); ++i) {
      const auto image = decoded<float>(*samples, 0, {i});
      ASSERT_EQ(image.size(), 3u * 10 * 7);
      for (const float x : image) EXPECT_NEAR(x, image[0], 1e-6);
      seen.push_back(std::round(image[0] * 255));
    }
  }
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (std::vector<float>{0, 40, 80, 100, 120, 135, 175, 215, 255}));
}

TEST_F(ImagesOfOnesOwn, AreToldByContentNotByTheirEnding) {
  put("dark/5.jpg", grey(1));
  put("light/5.png", encode_jpeg(Pixels(64), 8, 8, 1));
  EXPECT_EQ(error(), "");
  put("light/6.png", "GIF89a");
  EXPECT_EQ(error(), (root() / "light/6.png").string() + ": this is neither a JPEG nor a PNG file");
}

TEST_F(ImagesOfOnesOwn, ADamagedFileIsNamedBeforeARunBegins) {
  const auto jpeg = encode_jpeg(Pixels(64 * 64, 7), 64, 64, 1);
  put("light/half.jpg", jpeg.substr(0, jpeg.size() - 8));
  EXPECT_TRUE(error().starts_with((root() / "light/half.jpg").string() + ": row ")) << error();
  std::filesystem::remove(root() / "light/half.jpg");
  std::filesystem::create_symlink(root() / "none", root() / "light/lost.png");
  EXPECT_EQ(error(), "cannot read " + (root() / "light/lost.png").string() + ": No such file or directory");
}

TEST_F(ImagesOfOnesOwn, AFileThatChangesOrVanishesLaterIsNamed) {
  const auto plain = prepared(native());
  const auto training = open(info(), plain.files[Part::training], native());
  const auto all = [&] { return error_of<DataError>([&] { decoded<float>(*training, 0); }); };
  EXPECT_EQ(all(), "");
  // All of the class, because some of it is in the test part.
  for (int i = 0; i < 4; ++i) put(fmt::format("light/{}.png", i), grey(77));
  EXPECT_NE(all().find(": the file has changed since the run began"), std::string::npos) << all();
  remove_tree(root() / "light");
  EXPECT_TRUE(all().starts_with("cannot read " + (root() / "light").string())) << all();
}

TEST_F(ImagesOfOnesOwn, AreTheSameWhereverTheyLieAndOthersWhenAByteIs) {
  const auto before = digest();
  const auto moved = scratch_.path() / "moved";
  std::filesystem::rename(root(), moved);
  std::filesystem::create_symlink(moved, root());
  EXPECT_EQ(digest(), before);
  put("dark/0.png", grey(1));
  EXPECT_NE(digest(), before);
  put("dark/0.png", grey(0));
  EXPECT_EQ(digest(), before);
}

TEST_F(ImagesOfOnesOwn, MoreClassesThanAreWantedAreRefusedAndFewerAreNot) {
  put("middle/1.png", grey(1));
  EXPECT_NE(error_of<ConfigError>([&] {
              prepared(image_fields({1, 4, 6}, 2));
            }).find("has 3 classes; it cannot be given as image 1x4x6, label below 2"),
            std::string::npos);
  prepared(image_fields({1, 4, 6}, 10));
}

TEST_F(ImagesOfOnesOwn, OtherFormsAreRefused) {
  EXPECT_FALSE(info().format->can_give(image_fields({2, 4, 6}, 2)));
  EXPECT_FALSE(info().format->can_give(image_fields({1, 0, 6}, 2)));
  EXPECT_NE(error_of<ConfigError>([&] {
              require_form(info(), {{"features", DType::f32, {4}}, {"label", DType::i64, {}, 2}});
            }).find(" has image, label; it cannot be given as features 4, label below 2"),
            std::string::npos);
}

TEST_F(ImagesOfOnesOwn, WantAFolder) {
  EXPECT_EQ(error_of<DataError>([] { find_dataset("images:/no/such"); }),
            "cannot read /no/such: No such file or directory");
  put("file", "x");
  EXPECT_NE(error_of<DataError>([&] {
              find_dataset("images:" + (root() / "file").string());
            }).find("it is no folder"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::data
