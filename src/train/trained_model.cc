#include "train/trained_model.h"

#include "train/scoped_seed.h"

namespace tutti::train {
namespace {

std::shared_ptr<models::Model> make(const RunContext& run) {
  const auto& config = run.config;
  auto model = [&] {
    const ScopedSeed seeded(config.seed);
    return run.info.make(options_of(config));
  }();
  if (config.label_smoothing > 0) {
    dynamic_cast<models::Classifier&>(*model).smooth_labels(config.label_smoothing);
  }
  const torch::NoGradGuard no_grad;
  for (auto& p : model->parameters()) {
    if (channels_last(config) && p.dim() == 4) {
      p.set_data(p.data().contiguous(torch::MemoryFormat::ChannelsLast));
    }
  }
  model->train();
  return model;
}

}  // namespace

TrainedModel::TrainedModel(const RunContext& run)
    : network(make(run)),
      phases(network->phases()),
      buffers(*network),
      differs(run.config.reproducible ? state::Differs::nothing : state::Differs::buffers),
      shared_buffers(differs == state::Differs::nothing ? buffers.views() : state::NamedTensors()) {}

}  // namespace tutti::train
