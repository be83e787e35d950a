#include "data/synthetic.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tutti::data {
namespace {

const std::vector<Field> kFields = {
    {"numbers", DType::f32, {13}}, {"words", DType::i64, {26}, 1000}, {"label", DType::f32, {}}};

struct Decoded {
  std::vector<float> numbers, labels;
  std::vector<std::int64_t> words;
};

Decoded decode(const Samples& samples, const std::vector<std::uint32_t>& indices) {
  Decoded d{std::vector<float>(indices.size() * 13), std::vector<float>(indices.size()),
            std::vector<std::int64_t>(indices.size() * 26)};
  const auto bytes = [](auto& v) { return std::as_writable_bytes(std::span(v)); };
  const std::span<std::byte> into[] = {bytes(d.numbers), bytes(d.words), bytes(d.labels)};
  samples.decode(indices, into);
  return d;
}

TEST(Synthetic, SampleIsTheSameWhoeverDecodesIt) {
  const SyntheticSamples samples(kFields, 100, 7);
  const auto together = decode(samples, {5, 9});
  const auto alone = decode(samples, {9});
  EXPECT_EQ(alone.labels[0], together.labels[1]);
  EXPECT_TRUE(std::equal(alone.words.begin(), alone.words.end(), together.words.begin() + 26));
  EXPECT_TRUE(std::equal(alone.numbers.begin(), alone.numbers.end(), together.numbers.begin() + 13));
}

TEST(Synthetic, WordsStayInRangeAndLowOnesAreFrequent) {
  const SyntheticSamples samples(kFields, 2000, 7);
  std::vector<std::uint32_t> all(2000);
  for (std::uint32_t i = 0; i < 2000; ++i) all[i] = i;
  const auto d = decode(samples, all);
  std::size_t low = 0;
  for (const auto w : d.words) {
    ASSERT_TRUE(w >= 0 && w < 1000) << w;
    low += w < 100;
  }
  EXPECT_GT(low, d.words.size() * 4 / 10);
  double ones = 0;
  for (const float l : d.labels) ones += l;
  EXPECT_NEAR(ones / 2000, 0.5, 0.05);
}

TEST(Synthetic, TextHasNoLabel) {
  const SyntheticSamples samples({{"tokens", DType::i64, {9}, 50}}, 10, 7);
  std::vector<std::int64_t> words(2 * 9, -1);
  const std::span<std::byte> into[] = {std::as_writable_bytes(std::span(words))};
  samples.decode(std::vector<std::uint32_t>{3, 4}, into);
  for (const auto w : words) EXPECT_TRUE(w >= 0 && w < 50) << w;
}

}  // namespace
}  // namespace tutti::data
