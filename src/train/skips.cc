#include "train/skips.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tutti::train {
namespace {

// One bad batch is skipped and forgotten; when every step fails, the parameters do.
constexpr std::int64_t kMostInARow = 100;

}  // namespace

void Skips::before_step(const exchange::FiniteGuard& guard) {
  if (guard.skips()) kept_ = buffers_.copy();
}

void Skips::after_step(const exchange::FiniteGuard& guard, std::int64_t step, Rank rank) {
  if (!guard.skipped()) {
    in_a_row_ = 0;
    return;
  }
  buffers_.restore(kept_);
  const std::string what = fmt::format("step {}: {}", step, who_found(guard, rank));
  if (count_++ == 0) first_ = what;
  if (++in_a_row_ >= kMostInARow) {
    throw NonFinite(
        fmt::format("{}; {} steps in a row were skipped, a smaller --lr may help", what, in_a_row_));
  }
  say_(what + "; the step is skipped");
}

// On every worker the same where all skip it; elsewhere only this one knows.
std::string Skips::who_found(const exchange::FiniteGuard& guard, Rank rank) const {
  std::vector<std::string> found;
  const auto add = [&](int r, const std::string& text) {
    if (!text.empty()) found.push_back(fmt::format("rank {}: {}", r, text));
  };
  if (together_ == nullptr) {
    add(to_int(rank), guard.found());
  } else {
    const auto texts = collectives::gather_text(*together_, guard.found(), "gradients that are not finite");
    for (std::size_t r = 0; r < texts.size(); ++r) add(static_cast<int>(r), texts[r]);
  }
  if (found.empty()) return "the mean of the workers' gradients is not finite";  // damaged on its way
  const std::size_t others = found.size() - 1;
  return others == 0 ? found[0] : fmt::format("{} (so on {} more)", found[0], others);
}

}  // namespace tutti::train
