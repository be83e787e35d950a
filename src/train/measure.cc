#include "train/measure.h"

#include <algorithm>
#include <cmath>

namespace tutti::train {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto index = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  const auto nth =
      values.begin() + static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(index, 1, values.size()) - 1);
  std::ranges::nth_element(values, nth);
  return *nth;
}

}  // namespace tutti::train
