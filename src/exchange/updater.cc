#include "exchange/updater.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "optim/norm.h"

namespace tutti::exchange {

Updater::Updater(grad::Buckets& buckets, const grad::Tables& tables, const optim::Settings& settings,
                 double clip_norm)
    : buckets_(buckets),
      tables_(tables),
      settings_(settings),
      clip_norm_(clip_norm),
      state_(static_cast<std::size_t>(optim::state_slots(settings))) {
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (auto& slot : state_) slot.emplace_back(buckets.layout(b).count);
    auto& layers = layers_.emplace_back();
    for (const grad::Slice& s : buckets.layout(b).slices) {
      layers.push_back({s.first, s.count, buckets.dimensions_of(s.param) < 2});
    }
  }
}

void Updater::begin_step(std::int64_t t, double lr) {
  t_ = t;
  lr_ = lr;
}

void Updater::apply(std::size_t bucket) {
  if (!clips()) return update(bucket);
  squares_ += optim::sum_of_squares(buckets_.gradients(bucket));
  if (++waiting_ < buckets_.size()) return;
  const double factor = take_clip_factor();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (factor < 1) optim::scale(buckets_.gradients(b), factor);
    update(b);
  }
}

void Updater::clip() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    squares_ += optim::sum_of_squares(buckets_.gradients(b));
  }
  const double factor = take_clip_factor();
  for (std::size_t b = 0; factor < 1 && b < buckets_.size(); ++b) optim::scale(buckets_.gradients(b), factor);
}

double Updater::take_clip_factor() {
  gradient_norm_ = std::sqrt(std::exchange(squares_, 0));
  waiting_ = 0;
  if (!std::isfinite(gradient_norm_)) {
    throw RunError(
        fmt::format("the gradient of step {} has a norm of {}; a smaller --lr may help", t_, gradient_norm_));
  }
  return gradient_norm_ > clip_norm_ ? clip_norm_ / gradient_norm_ : 1;
}

void Updater::update(std::size_t bucket) {
  std::vector<std::span<float>> state;
  for (auto& slot : state_) state.emplace_back(slot[bucket]);
  const auto gradients = buckets_.gradients(bucket);
  if (optim::needs_layers(settings_.kind)) {
    optim::step_layers(settings_, lr_, t_, layers_[bucket], buckets_.parameters(bucket), gradients, state);
  } else {
    optim::step(settings_, lr_, t_, buckets_.parameters(bucket), gradients, state);
  }
  std::ranges::fill(gradients, 0.0F);
}

std::vector<std::span<float>> Updater::slot(int slot) {
  std::vector<std::span<float>> flat;
  for (auto& bucket : state_[static_cast<std::size_t>(slot)]) flat.emplace_back(bucket);
  return flat;
}

std::vector<std::span<float>> Updater::table_slot(int slot) {
  table_state_.resize(state_.size());
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
