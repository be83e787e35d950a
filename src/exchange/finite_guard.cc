#include "exchange/finite_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "optim/finite.h"

namespace tutti::exchange {
namespace {

// fmt tells -nan from nan, which nobody wants to know.
std::string in_words(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.3g}", value);
}

}  // namespace

FiniteGuard::FiniteGuard(grad::Buckets& buckets, const FiniteOptions& options)
    : buckets_(buckets),
      options_(options),
      limit_(optim::exponent_limit(options.summed_over)),
      unusable_(buckets.size()) {}

void FiniteGuard::begin_step(std::int64_t step) {
  step_ = step;
  skipped_ = false;
  time_ = 0;
  found_.clear();
  unusable_.assign(buckets_.size(), 0);
}

bool FiniteGuard::look(std::span<const float> values, unsigned limit) {
  const auto begin = Clock::now();
  const bool usable = optim::all_finite(values, limit);
  time_ += (Clock::now() - begin).count();
  return usable;
}

void FiniteGuard::report(std::string what) {
  if (!skips()) throw NonFinite(options_.rank, step_, what);
  const std::scoped_lock lock(mutex_);
  if (found_.empty()) found_ = std::move(what);
}

bool FiniteGuard::loss(std::size_t phase, double value) {
  if (std::isfinite(value)) return true;
  report(fmt::format("the loss is {}", in_words(value)));
  // Backward may lose a NaN on its way (a mask, a branch not taken). What it adds to this one stays NaN.
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (buckets_.layout(b).phase == phase) {
      buckets_.gradients(b)[0] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return false;
}

bool FiniteGuard::own_gradient(std::size_t bucket) {
  if (watch_ != nullptr) watch_->own_gradient(bucket);
  return options_.by_shards ? unusable_[bucket] == 0 : look_at_first_place(bucket);
}

void FiniteGuard::shard_gradient(std::size_t bucket) {
  if (!look_at_first_place(bucket)) unusable_[bucket] = 1;
}

bool FiniteGuard::look_at_first_place(std::size_t bucket) {
  const auto gradients = buckets_.gradients(bucket);
  if (look(gradients, limit_)) return true;
  const std::size_t at = *optim::first_nonfinite(gradients, limit_);
  const auto& slices = buckets_.layout(bucket).slices;
  // The last that does not begin behind it.
  const auto slice = std::prev(std::ranges::upper_bound(slices, at, {}, &grad::Slice::first));
  const float value = gradients[at];
  report(fmt::format("the gradient of {} holds {} (first at element {}){}", buckets_.name_of(slice->param),
                     in_words(value), at - slice->first,
                     std::isfinite(value)
                         ? fmt::format(", too much to add up over {} workers or shards", options_.summed_over)
                         : ""));
  gradients[at] = std::numeric_limits<float>::quiet_NaN();  // so that a mean shows it to everyone
  return false;
}

void FiniteGuard::own_rows(const std::string& table, std::span<const float> values) {
  if (look(values, limit_)) return;
  report(fmt::format("the gradient of {} holds {}", table,
                     in_words(values[*optim::first_nonfinite(values, limit_)])));
}

bool FiniteGuard::mean_gradient(std::size_t bucket) {
  return look(buckets_.gradients(bucket), optim::kNotFinite);
}

std::string FiniteGuard::found() const {
  const std::scoped_lock lock(mutex_);
  return found_;
}

bool true_for_all(collectives::Collectives& workers, bool mine, std::string_view label) {
  if (workers.world() == 1) return mine;
  std::int32_t agreed = mine ? 1 : 0;
  workers.all_reduce({&agreed, 1, DType::i32}, collectives::ReduceOp::min, label);
  return agreed == 1;
}

}  // namespace tutti::exchange
