// --flip-bit RANK:STEP:TENSOR:ELEMENT:BIT[:gradient|mean], a fault at an exact place, for tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/train_config.h"

namespace tutti::config {

struct FlipBit {
  // Of the gradient: before it leaves its worker, or when the mean has come back and is to be applied.
  enum class Site { gradient, mean };

  int rank = 0;
  std::int64_t step = 0;  // from 1
  std::string tensor;
  std::int64_t element = 0;  // in row-major order
  int bit = 0;               // 0: the least of the fraction, 31: the sign
  Site site = Site::mean;
};

// Nothing if `flip_bit` is empty. Throws ConfigError.
std::optional<FlipBit> parse_flip_bit(const TrainConfig& config);

}  // namespace tutti::config
