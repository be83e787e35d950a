// Wide and deep learning for click-through data (Cheng et al. 2016): 13 numbers and 26 categories, which are
// hashed into one space of rows.
//
//   categories -> wide table, a number a row ------------------------------- sum ---+
//   categories -> deep table, 16 numbers a row --+                                  +-> score of a click
//   numbers --------------------------------------+-> 429 -> 256 -> 128 -> 1 -------+
//
// A batch reads few rows of the tables, so their gradients are sparse.
#pragma once

#include "models/model.h"

namespace tutti::models {

class WideDeep final : public Model {
 public:
  static constexpr std::int64_t kNumbers = 13;
  static constexpr std::int64_t kCategories = 26;
  static constexpr std::int64_t kRows = 1 << 17;
  static constexpr std::int64_t kWidth = 16;
  static constexpr std::int64_t kIn = kNumbers + kCategories * kWidth;
  static constexpr std::int64_t kHidden1 = 256, kHidden2 = 128;
  static constexpr std::int64_t kParameters =
      kRows * (kWidth + 1) + (kIn + 1) * kHidden1 + (kHidden1 + 1) * kHidden2 + kHidden2 + 1;
  static constexpr double kFlops = 2.0 * (kIn * kHidden1 + kHidden1 * kHidden2 + kHidden2);

  WideDeep();
  torch::Tensor loss(const Batch& batch) override;
  Score score(const Batch& batch) override;
  std::vector<torch::Tensor> rows_read(const Batch& batch) const override;

 private:
  torch::Tensor forward(const Batch& batch);

  torch::nn::Embedding wide_, deep_;
  torch::nn::Linear dense1_, dense2_, dense3_;
};

ModelInfo wide_deep();

}  // namespace tutti::models
