#include "data/image_format.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "data/idx_fixture.h"
#include "data/idx_images.h"
#include "data/open.h"
#include "data/samples_fixture.h"

namespace tutti::data {
namespace {

using namespace fixture;

class SmallIdxSet : public ::testing::Test {
 protected:
  SmallIdxSet() : format_({{1, 3, 2}, 10, {{0.5F, 0.25F}}}) {
    sources_ = sources_of({put("images.gz", images_idx(5)), put("labels", labels_idx(5))},
                          {put("test-images", images_idx(4)), put("test-labels.gz", labels_idx(4))});
  }
  std::string put(const std::string& name, const std::string& content) {
    return write(scratch_.path() / name, content).string();
  }

  ScratchFolder scratch_;
  IdxFormat format_;
  PartFiles sources_;
};

TEST_F(SmallIdxSet, OpensBothPartsPlainOrGzipped) {
  const BothParts parts(format_, sources_, format_.native_fields({}));
  EXPECT_EQ(parts[Part::training].size(), 5u);
  EXPECT_EQ(parts[Part::test].size(), 4u);
  EXPECT_FLOAT_EQ(decoded<float>(parts[Part::training], 0, {4})[5], (33 / 255.0F - 0.5F) / 0.25F);
}

TEST_F(SmallIdxSet, GivesPixelsFromZeroToOneToWhoAsks) {
  auto wanted = format_.native_fields({});
  wanted[0].name = "pixels";
  ASSERT_TRUE(format_.can_give(wanted));
  const BothParts parts(format_, sources_, wanted);
  EXPECT_FLOAT_EQ(decoded<float>(parts[Part::training], 0, {4})[5], 33 / 255.0F);
}

TEST_F(SmallIdxSet, GivesAnotherSizeAndMoreChannels) {
  const auto wanted = image_fields({3, 6, 5}, 10);
  const BothParts parts(format_, sources_, wanted);
  EXPECT_EQ(parts[Part::training].fields(), wanted);
  const BothParts native(format_, sources_, format_.native_fields({}));
  std::vector<float> expected(30);
  for (const std::uint32_t i : {0U, 3U}) {
    Resize(3, 2, 6, 5)(decoded<float>(native[Part::training], 0, {i}), expected);
    const auto image = decoded<float>(parts[Part::training], 0, {1, i});
    ASSERT_EQ(image.size(), 2u * 90);
    for (std::size_t p = 0; p < 90; ++p) EXPECT_EQ(image[90 + p], expected[p % 30]) << p;
  }
  EXPECT_EQ(decoded<std::int64_t>(parts[Part::training], 1, {3}), std::vector<std::int64_t>{3});
}

TEST_F(SmallIdxSet, RefusesImagesOfAnotherSizeThanTheCatalogueSays) {
  const IdxFormat other({{1, 28, 28}, 10, {{0.5F, 0.25F}}});
  const std::string text = error_of<DataError>([&] { other.prepare(sources_, other.native_fields({}), {}); });
  EXPECT_NE(text.find("images.gz: offset 8: images of 3x2, expected 28x28"), std::string::npos) << text;
}

TEST(Form, IsGivenOrRefusedWithBothForms) {
  const DatasetInfo mnist = find_dataset("mnist");
  const DatasetInfo cifar = find_dataset("cifar10");
  EXPECT_TRUE(mnist.format->can_give(image_fields({1, 28, 28}, 10)));
  EXPECT_TRUE(mnist.format->can_give(image_fields({3, 224, 224}, 10)));
  EXPECT_TRUE(cifar.format->can_give(image_fields({3, 224, 224}, 10)));
  EXPECT_FALSE(cifar.format->can_give(image_fields({1, 32, 32}, 10)));
  EXPECT_FALSE(mnist.format->can_give({}));
  EXPECT_FALSE(mnist.format->can_give(image_fields({1, 0, 28}, 10)));
  EXPECT_EQ(
      error_of<ConfigError>([&] {
        require_form(mnist, image_fields({1, 28, 28}, 100));
      }),
      "data mnist has image 1x28x28, label below 10; it cannot be given as image 1x28x28, label below 100");
  EXPECT_EQ(error_of<ConfigError>([&] {
              open(mnist, {}, {{"numbers", DType::f32, {13}}, {"click", DType::f32, {}}});
            }),
            "data mnist has image 1x28x28, label below 10; it cannot be given as numbers 13, click");
}

}  // namespace
}  // namespace tutti::data
