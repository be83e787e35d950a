#include "exchange/updater.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optim/norm.h"

namespace tutti::exchange {

Updater::Updater(grad::Buckets& buckets, const grad::Tables& tables, std::unique_ptr<Update> update,
                 double clip_norm, const FiniteOptions& finite)
    : buckets_(buckets),
      tables_(tables),
      update_(std::move(update)),
      slots_(update_->slots()),
      clip_norm_(clip_norm),
      finite_(buckets, finite) {}

void Updater::begin_step(std::int64_t t, double lr) {
  t_ = t;
  lr_ = lr;
  finite_.begin_step(t);
}

void Updater::apply(std::size_t bucket) {
  if (mean_factor_ != 1) optim::scale(buckets_.gradients(bucket), mean_factor_);
  if (watch_ != nullptr) watch_->mean_gradient(bucket);
  take(bucket, !finite_.skips() || finite_.mean_gradient(bucket));
}

void Updater::apply_own(std::size_t bucket) {
  take(bucket, finite_.own_gradient(bucket));
}

// What looks at the whole gradient (its norm, a number that voids the step, an optimizer of torch's, which
// steps once) must have all of it before the first parameter changes. So buckets only count in until the last
// one of their phase; the phase's are then taken together.
void Updater::take(std::size_t bucket, bool usable) {
  if (!waits_for_all()) return update({&bucket, 1});
  usable_ = usable_ && usable;
  if (clips()) squares_ += optim::sum_of_squares(buckets_.gradients(bucket));
  std::vector<std::size_t> phase;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (buckets_.layout(b).phase == buckets_.layout(bucket).phase) phase.push_back(b);
  }
  if (++waiting_ < phase.size()) return;
  waiting_ = 0;
  if (!std::exchange(usable_, true)) {
    finite_.skip();
    squares_ = gradient_norm_ = 0;
    for (const std::size_t b : phase) std::ranges::fill(buckets_.gradients(b), 0.0F);
    return;
  }
  const double factor = clips() ? take_clip_factor() : 1;
  for (const std::size_t b : phase) {
    if (factor < 1) optim::scale(buckets_.gradients(b), factor);
  }
  update(phase);
}

void Updater::clip() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    squares_ += optim::sum_of_squares(buckets_.gradients(b));
  }
  const double factor = take_clip_factor();
  for (std::size_t b = 0; factor < 1 && b < buckets_.size(); ++b) optim::scale(buckets_.gradients(b), factor);
}

double Updater::take_clip_factor() {
  // Finite: the squares of finite floats are far from where a double ends.
  gradient_norm_ = std::sqrt(std::exchange(squares_, 0));
  return gradient_norm_ > clip_norm_ ? clip_norm_ / gradient_norm_ : 1;
}

void Updater::update(std::span<const std::size_t> buckets) {
  update_->step(buckets, t_, lr_);
  if (!clears_) return;
  for (const std::size_t b : buckets) std::ranges::fill(buckets_.gradients(b), 0.0F);
}

std::vector<std::span<float>> Updater::table_slot(int slot) {
  table_state_.resize(slots_.size());
  auto& tables = table_state_[static_cast<std::size_t>(slot)];
  for (std::size_t t = tables.size(); t < tables_.size(); ++t) tables.emplace_back(tables_.values(t).size());
  return {tables.begin(), tables.end()};
}

Updater::State Updater::state() {
  State all;
  for (int s = 0; s < slots(); ++s) all.push_back({slot(s), table_slot(s)});
  return all;
}

}  // namespace tutti::exchange
