#include "models/script.h"

#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/graph_iterator.h>
#include <torch/nn.h>
#include <torch/script.h>
#include <torch/version.h>

#include "base/error.h"

namespace tutti::models {
namespace {

namespace jit = torch::jit;

jit::Module load(const std::filesystem::path& file) {
  try {
    return jit::load(file.string());
  } catch (const std::exception& e) {
    const std::string why = first_line(e);
    // By libtorch's words alone: it throws the same type for a file that is damaged.
    if (why.find("maximum supported version") != std::string::npos) {
      throw DataError(fmt::format("{}: this was saved by a torch that is newer than libtorch {} reads: {}",
                                  file.string(), TORCH_VERSION, why));
    }
    throw DataError(
        fmt::format("{}: this cannot be loaded as TorchScript (torch.jit.script(net).save(...)): {}",
                    file.string(), why));
  }
}

// Convolutions of the CPU are the quicker ones with channels last: a step of mnist-cnn takes three quarters
// of the time. A `view` in the network insists on the memory order that it was written for; flatten and
// reshape take any.
bool prefers_channels_last(const jit::Module& script) {
  const auto forward = script.find_method("forward");
  if (!forward) return false;
  auto graph = forward->graph()->copy();
  jit::Inline(*graph);
  bool convolves = false;
  jit::DepthFirstGraphNodeIterator nodes(graph);
  while (const jit::Node* node = nodes.next()) {
    if (node->kind() == jit::aten::view) return false;
    convolves |= node->kind() == jit::aten::conv2d || node->kind() == jit::aten::_convolution;
  }
  return convolves;
}

class ScriptModel final : public ScoredModel {
 public:
  ScriptModel(jit::Module script, ScoreLoss loss) : ScoredModel(loss), script_(std::move(script)) {
    mirror(script_, *this);
  }

  void train(bool on = true) override {
    ScoredModel::train(on);
    script_.train(on);
  }

 private:
  struct Kept {
    jit::Module owner;
    std::string name;
    torch::Tensor tensor;
  };

  // The same tensors under the same names, as a module of ours: whoever changes one changes the other.
  void mirror(const jit::Module& from, torch::nn::Module& into) {
    for (const auto& p : from.named_parameters(false)) {
      into.register_parameter(p.name, p.value, p.value.requires_grad());
    }
    for (const auto& b : from.named_buffers(false)) {
      into.register_buffer(b.name, b.value);
      buffers_.push_back({from, b.name, b.value});
    }
    for (const auto& child : from.named_children()) {
      mirror(child.value, *into.register_module(child.name, std::make_shared<torch::nn::Module>(child.name)));
    }
  }

  torch::Tensor scores(const Batch& batch) override {
    std::vector<jit::IValue> inputs(batch.begin(), batch.end() - 1);
    // As it is written. An executor that optimises watches the first passes and computes the rest by other
    // formulas, so that bits would depend on how many passes this process has made before.
    const jit::GraphOptimizerEnabledGuard optimise(false);
    const auto scores = script_.forward(inputs);
    if (!scores.isTensor()) throw ConfigError("the network's forward() gives no tensor of scores");
    if (is_training()) bring_back_buffers();
    return scores.toTensor();
  }

  // A script may lay a new tensor where a buffer was (batch norm's count of batches): ours goes back there
  // with its value.
  void bring_back_buffers() {
    const torch::NoGradGuard no_grad;
    for (Kept& b : buffers_) {
      const auto now = b.owner.attr(b.name).toTensor();
      if (now.unsafeGetTensorImpl() == b.tensor.unsafeGetTensorImpl()) continue;
      b.tensor.copy_(now);
      b.owner.setattr(b.name, b.tensor);
    }
  }

  jit::Module script_;
  std::vector<Kept> buffers_;
};

}  // namespace

ModelInfo script_model(const std::filesystem::path& file, ScoreLoss loss) {
  const auto path = existing_file(file);
  OwnNetwork network{
      .prefix = "script:", .summary = "a network of your own, from a TorchScript file", .make = [path, loss] {
        return std::make_shared<ScriptModel>(load(path), loss);
      }};
  const auto script = load(path);
  for (const auto& p : script.parameters()) network.trained += p.requires_grad() ? p.numel() : 0;
  auto info = info_of(path, loss, std::move(network));
  info.channels_last = prefers_channels_last(script);
  return info;
}

}  // namespace tutti::models
