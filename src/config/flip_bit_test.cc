#include "config/flip_bit.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tutti::config {
namespace {

TrainConfig flipping(const std::string& text) {
  TrainConfig c;
  c.workers = 3;
  c.flip_bit = text;
  return c;
}

TEST(FlipBit, NamesRankStepTensorElementBitAndSite) {
  EXPECT_FALSE(parse_flip_bit(flipping("")));
  const auto mean = parse_flip_bit(flipping("2:7:conv1.weight:41:31"));
  ASSERT_TRUE(mean);
  EXPECT_EQ(mean->rank, 2);
  EXPECT_EQ(mean->step, 7);
  EXPECT_EQ(mean->tensor, "conv1.weight");
  EXPECT_EQ(mean->element, 41);
  EXPECT_EQ(mean->bit, 31);
  EXPECT_EQ(mean->site, FlipBit::Site::mean);
  EXPECT_EQ(parse_flip_bit(flipping("0:1:w:0:0:mean"))->site, FlipBit::Site::mean);
  EXPECT_EQ(parse_flip_bit(flipping("0:1:w:0:0:gradient"))->site, FlipBit::Site::gradient);
}

TEST(FlipBit, WhatIsNotSuchAPlaceIsRefused) {
  for (const char* text : {":", "1", "1:2:w:3", "3:2:w:3:4", "1:0:w:3:4", "1:2::3:4", "1:2:w:x:4",
                           "1:2:w:3:32", "1:2:w:3:-1", "1:2:w:3:4:", "1:2:w:3:4:sum", "1:2:w:3:4:mean:5"}) {
    EXPECT_THROW((void)parse_flip_bit(flipping(text)), ConfigError) << text;
    EXPECT_THROW(validate(flipping(text)), ConfigError) << text;
  }
}

}  // namespace
}  // namespace tutti::config
