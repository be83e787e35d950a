// Samples of any shape, made up on the fly, for measurements that no data set fits, and for tests.
//
// Each sample has a class, drawn from its number and the seed; all its fields lean towards that class, so
// that a network has something to learn. Whole numbers are drawn as words are in a text: a few often, most of
// them rarely.
#pragma once

#include "data/samples.h"

namespace tutti::data {

class SyntheticSamples final : public Samples {
 public:
  // A last field that is a single number is what is to be learned: a class (i64, below its `below`), or 0 or
  // 1 (f32). Without one, as in a text, which words are frequent is what there is to learn.
  SyntheticSamples(std::vector<Field> fields, std::size_t size, std::uint64_t seed);
  std::size_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void decode(std::span<const std::uint32_t> indices,
              std::span<const std::span<std::byte>> into) const override;

 private:
  std::vector<Field> fields_;
  std::size_t size_;
  std::uint64_t seed_;
  bool labelled_;
  std::uint64_t classes_;
};

}  // namespace tutti::data
