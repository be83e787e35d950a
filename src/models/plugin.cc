#include "models/plugin.h"

#include <dlfcn.h>
#include <torch/nn.h>

#include "base/error.h"
#include "tutti/network.h"

namespace tutti::models {
namespace {

std::shared_ptr<Network> make_network(const PluginDescription& plugin, const std::filesystem::path& file) {
  try {
    return plugin.make();
  } catch (const std::exception& e) {
    throw DataError(fmt::format("{}: the network cannot be made: {}", file.string(), first_line(e)));
  }
}

const PluginDescription& load(const std::filesystem::path& file) {
  const auto refuse = [&](const std::string& why) {
    throw DataError(fmt::format("{}: {}", file.string(), why));
  };
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse(fmt::format("this cannot be loaded as a shared library: {}", ::dlerror()));
  using Describe = const PluginDescription* (*)();
  const auto describe = reinterpret_cast<Describe>(::dlsym(library, "tutti_plugin"));
  if (describe == nullptr)
    refuse("this library has no network; TUTTI_NETWORK(Type) of tutti/network.h adds it");
  const PluginDescription& plugin = *describe();
  if (plugin.interface_version != kPluginInterface) {
    refuse(
        fmt::format("this was built for version {} of tutti's plugins, and this tutti has {}; build it anew",
                    plugin.interface_version, kPluginInterface));
  }
  if (std::string_view(plugin.torch_version) != TORCH_VERSION) {
    refuse(fmt::format("this was built with libtorch {}, and this tutti with {}; build it anew",
                       plugin.torch_version, TORCH_VERSION));
  }
  return plugin;
}

class PluginModel final : public ScoredModel {
 public:
  PluginModel(std::shared_ptr<Network> network, ScoreLoss loss)
      : ScoredModel(loss), network_(std::move(network)) {
    mirror(*network_, *this);
  }

  void train(bool on = true) override {
    ScoredModel::train(on);
    network_->train(on);
  }

 private:
  // The same tensors under the same names: whoever changes one changes the other. What kind of layer has them
  // nobody is to see, for which rows of an embedding a batch reads, only the network knows.
  static void mirror(const torch::nn::Module& from, torch::nn::Module& into) {
    for (const auto& p : from.named_parameters(false)) {
      into.register_parameter(p.key(), p.value(), p.value().requires_grad());
    }
    for (const auto& b : from.named_buffers(false)) into.register_buffer(b.key(), b.value());
    for (const auto& child : from.named_children()) {
      mirror(*child.value(),
             *into.register_module(child.key(), std::make_shared<torch::nn::Module>(child.key())));
    }
  }

  torch::Tensor scores(const Batch& batch) override {
    return network_->forward({batch.begin(), batch.end() - 1});
  }

  const std::shared_ptr<Network> network_;
};

}  // namespace

ModelInfo plugin_model(const std::filesystem::path& file, ScoreLoss loss) {
  const auto path = existing_file(file);
  const PluginDescription& plugin = load(path);
  const auto make = [&plugin, path] { return make_network(plugin, path); };
  OwnNetwork network{
      .prefix = "plugin:", .summary = "a network of your own, from a shared library", .make = [make, loss] {
        return std::make_shared<PluginModel>(make(), loss);
      }};
  for (const auto& p : make()->parameters()) network.trained += p.requires_grad() ? p.numel() : 0;
  return info_of(path, loss, std::move(network));
}

}  // namespace tutti::models
