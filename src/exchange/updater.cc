#include "exchange/updater.h"

#include <algorithm>

namespace tutti::exchange {

Updater::Updater(grad::Buckets& buckets, const grad::Tables& tables, const optim::Settings& settings)
    : buckets_(buckets),
      tables_(tables),
      settings_(settings),
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
