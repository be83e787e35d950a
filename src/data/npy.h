// Arrays of one's own in NumPy's format (.npy): samples in one file, what is to be learned of each in
// another.
//
// X has a sample for each of its first dimension: numbers (N x D, "features") or images (N x H x W or N x C x
// H x W, "image"; bytes become 0 to 1). Y has N whole numbers from 0 on, the classes.
#pragma once

#include "data/record_format.h"

namespace tutti::data {

class NpyFormat final : public RecordFormat {
 public:
  explicit NpyFormat(double test_share) : test_share_(test_share) {}

  // Without sources nothing is known.
  std::vector<Field> native_fields(const PartFiles& sources) const override;
  bool can_give(const std::vector<Field>& wanted) const override;

 private:
  // Two sources, X and Y, among those of the training part.
  std::array<Words, 2> read(const PartFiles& sources, const std::vector<Field>& wanted) const override;

  double test_share_;
};

}  // namespace tutti::data
