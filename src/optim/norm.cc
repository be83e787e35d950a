#include "optim/norm.h"

#include <array>
#include <numeric>

#include "base/simd.h"

namespace tutti::optim {
namespace {

// As many sums as make a vector loop worthwhile on any machine; how they are added does not depend on it.
constexpr std::size_t kLanes = 16;

TUTTI_SIMD_CLONES void add_squares(std::size_t blocks, const float* values, double* lanes) {
  for (std::size_t b = 0; b < blocks; ++b) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const double x = values[b * kLanes + i];
      lanes[i] += x * x;
    }
  }
}

TUTTI_SIMD_CLONES void scale_loop(std::size_t n, float* values, float factor) {
  for (std::size_t i = 0; i < n; ++i) values[i] *= factor;
}

}  // namespace

double sum_of_squares(std::span<const float> values) {
  std::array<double, kLanes> lanes{};
  const std::size_t blocks = values.size() / kLanes;
  add_squares(blocks, values.data(), lanes.data());
  const auto rest = values.subspan(blocks * kLanes);
  for (std::size_t i = 0; i < rest.size(); ++i) lanes[i] += static_cast<double>(rest[i]) * rest[i];
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

void scale(std::span<float> values, double factor) {
  scale_loop(values.size(), values.data(), static_cast<float>(factor));
}

}  // namespace tutti::optim
