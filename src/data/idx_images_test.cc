#include "data/idx_images.h"

#include <gtest/gtest.h>

#include "base/scratch_folder.h"
#include "data/idx_fixture.h"

namespace tutti::data {
namespace {

using namespace fixture;

class Images : public ::testing::Test {
 protected:
  std::filesystem::path images(std::uint32_t count) {
    return write(scratch_.path() / "images.gz", images_idx(count));
  }
  std::filesystem::path labels(std::uint32_t count) {
    return write(scratch_.path() / "labels", labels_idx(count));
  }

  ScratchFolder scratch_;
};

TEST_F(Images, GivesPixelsAndLabels) {
  const IdxImages set = IdxImages::open(images(12), labels(12), 10);
  EXPECT_EQ(set.size(), 12u);
  EXPECT_EQ(set.shape(), (ImageShape{1, 3, 2}));
  ASSERT_EQ(set.pixels(11).size(), 6u);
  EXPECT_EQ(set.pixels(11)[5], 82);
  EXPECT_EQ(set.label(11), 1);
}

TEST_F(Images, RefusesCountsThatDiffer) {
  const std::string text = error_of<DataError>([&] { IdxImages::open(images(12), labels(11), 10); });
  EXPECT_NE(text.find("labels: offset 4: 11 labels, expected 12 as in "), std::string::npos) << text;
}

TEST_F(Images, RefusesALabelOutOfRange) {
  const std::string text = error_of<DataError>([&] { IdxImages::open(images(12), labels(12), 9); });
  EXPECT_NE(text.find("labels: offset 17: label 9, expected 0 to 8"), std::string::npos) << text;
}

}  // namespace
}  // namespace tutti::data
