#include "train/snapshot.h"

#include <gtest/gtest.h>

namespace tutti::train {
namespace {

std::vector<float> numbers(const checkpoint::TensorView& view) {
  const auto* first = reinterpret_cast<const float*>(view.bytes.data());
  return {first, first + view.bytes.size() / sizeof(float)};
}

TEST(Snapshot, HoldsOriginalsWhereTheyLieInRowMajorOrder) {
  const auto plain = torch::rand({4, 3});
  const auto columns_first = torch::rand({3, 4}).t();
  Snapshot s;
  s.add("a.", {{"plain", plain}, {"columns", columns_first}}, Hold::originals);
  ASSERT_EQ(s.views().size(), 2U);
  EXPECT_EQ(s.views()[0].name, "a.plain");
  EXPECT_EQ(s.views()[0].bytes.data(), static_cast<const std::byte*>(plain.data_ptr()));
  EXPECT_FLOAT_EQ(numbers(s.views()[1])[1], columns_first[0][1].item<float>());
}

TEST(Snapshot, CopiesStayWhenTheRunGoesOn) {
  const auto tensor = torch::ones({4, 3});
  Snapshot s;
  s.add("", {{"tensor", tensor}}, Hold::copies);
  tensor.zero_();
  EXPECT_EQ(numbers(s.views()[0]), std::vector<float>(12, 1.0F));
}

}  // namespace
}  // namespace tutti::train
