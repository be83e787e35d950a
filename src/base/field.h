// What a sample consists of: the contract between data and models.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace tutti {

struct Field {
  std::string name;
  DType type = DType::f32;               // f32 or i64
  std::vector<std::int64_t> shape = {};  // of one sample; empty: a single number
  std::int64_t below = 0;                // of i64: every number is from 0 to below - 1

  std::size_t count() const {
    return static_cast<std::size_t>(
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies()));
  }
  std::size_t bytes() const { return count() * size_of(type); }
  bool operator==(const Field&) const = default;
};

}  // namespace tutti
