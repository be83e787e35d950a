#include "exchange/update.h"

#include <torch/optim/optimizer.h>

#include "optim/layerwise.h"
#include "optim/step.h"

namespace tutti::exchange {
namespace {

class FlatUpdate final : public Update {
 public:
  FlatUpdate(grad::Buckets& buckets, const optim::Settings& settings)
      : buckets_(buckets),
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

  bool by_bucket() const override { return true; }

  void step(std::span<const std::size_t> buckets, std::int64_t t, double lr) override {
    for (const std::size_t b : buckets) {
      std::vector<std::span<float>> state;
      for (auto& slot : state_) state.emplace_back(slot[b]);
      if (optim::needs_layers(settings_.kind)) {
        optim::step_layers(settings_, lr, t, layers_[b], buckets_.parameters(b), buckets_.gradients(b),
                           state);
      } else {
        optim::step(settings_, lr, t, buckets_.parameters(b), buckets_.gradients(b), state);
      }
    }
  }

  std::vector<Slot> slots() override {
    std::vector<Slot> all;
    for (std::size_t s = 0; s < state_.size(); ++s) {
      all.push_back({optim::slot_name(settings_, static_cast<int>(s)), {state_[s].begin(), state_[s].end()}});
    }
    return all;
  }

 private:
  grad::Buckets& buckets_;
  const optim::Settings settings_;
  std::vector<std::vector<optim::Layer>> layers_;       // by bucket
  std::vector<std::vector<std::vector<float>>> state_;  // slot, bucket, element
};

class TorchUpdate final : public Update {
 public:
  explicit TorchUpdate(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {}

  bool by_bucket() const override { return false; }
  void step(std::span<const std::size_t> /*buckets*/, std::int64_t /*t*/, double /*lr*/) override {
    optimizer_.step();
  }
  std::vector<Slot> slots() override { return {}; }

 private:
  torch::optim::Optimizer& optimizer_;
};

}  // namespace

std::unique_ptr<Update> flat_update(grad::Buckets& buckets, const optim::Settings& settings) {
  return std::make_unique<FlatUpdate>(buckets, settings);
}

std::unique_ptr<Update> torch_update(torch::optim::Optimizer& optimizer) {
  return std::make_unique<TorchUpdate>(optimizer);
}

}  // namespace tutti::exchange
