#include "models/script.h"

#include <torch/script.h>

#include <array>
#include <sstream>

#include "base/error.h"

namespace tutti::models {
namespace {

namespace F = torch::nn::functional;
namespace jit = torch::jit;

// The first line: libtorch appends where in its own source it was, and a backtrace.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

jit::Module load(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored))
    throw DataError(fmt::format("{}: there is no such file", file.string()));
  try {
    return jit::load(file.string());
  } catch (const std::exception& e) {
    throw DataError(
        fmt::format("{}: this cannot be loaded as TorchScript (torch.jit.script(net).save(...)): {}",
                    file.string(), first_line(e.what())));
  }
}

void require_shape(ScoreLoss loss, const torch::Tensor& scores, const torch::Tensor& label) {
  const bool classes = loss == ScoreLoss::cross_entropy;
  const bool fits =
      classes ? scores.dim() == 2 && scores.size(0) == label.size(0) : scores.numel() == label.numel();
  if (fits && (!classes || label.max().item<std::int64_t>() < scores.size(1))) return;
  std::ostringstream shape;
  shape << scores.sizes();
  throw ConfigError(fmt::format("the network gives scores of shape {} for {} samples; this loss wants {}",
                                shape.str(), label.size(0),
                                classes ? "one for each class of the data" : "one a sample"));
}

torch::Tensor loss_of(ScoreLoss loss, const torch::Tensor& scores, const torch::Tensor& label, bool summed) {
  require_shape(loss, scores, label);
  switch (loss) {
    case ScoreLoss::cross_entropy: {
      F::CrossEntropyFuncOptions options;
      if (summed) options.reduction(torch::kSum);
      return F::cross_entropy(scores, label, options);
    }
    case ScoreLoss::mse: {
      F::MSELossFuncOptions options;
      if (summed) options.reduction(torch::kSum);
      return F::mse_loss(scores.view_as(label), label.to(scores.scalar_type()), options);
    }
    case ScoreLoss::bce: {
      F::BinaryCrossEntropyWithLogitsFuncOptions options;
      if (summed) options.reduction(torch::kSum);
      return F::binary_cross_entropy_with_logits(scores.view_as(label), label.to(scores.scalar_type()),
                                                 options);
    }
  }
  return {};
}

Measures measures_of(ScoreLoss loss) {
  if (loss == ScoreLoss::cross_entropy) return classification();
  if (loss == ScoreLoss::mse) return {.counts = 0, .figures = {mean_loss()}};
  return {.counts = 1, .figures = {mean_loss(), share("accuracy", 0)}};
}

class ScriptModel final : public Model {
 public:
  ScriptModel(jit::Module script, ScoreLoss loss) : script_(std::move(script)), loss_(loss) {
    mirror(script_, *this);
  }

  torch::Tensor loss(const Batch& batch) override {
    return loss_of(loss_, forward(batch), batch.back(), false);
  }

  Score score(const Batch& batch) override {
    const auto scores = forward(batch);
    const auto& label = batch.back();
    Score sums{.loss = loss_of(loss_, scores, label, true).item<double>(),
               .samples = static_cast<double>(label.size(0))};
    if (loss_ == ScoreLoss::cross_entropy) {
      const auto best = std::get<1>(scores.topk(std::min<std::int64_t>(5, scores.size(1)), 1));
      sums.counts = {scores.argmax(1).eq(label).sum().item<double>(),
                     best.eq(label.unsqueeze(1)).sum().item<double>()};
    } else if (loss_ == ScoreLoss::bce) {
      sums.counts = {scores.view_as(label).gt(0).eq(label.gt(0)).sum().item<double>()};
    }
    return sums;
  }

  void train(bool on = true) override {
    Model::train(on);
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

  torch::Tensor forward(const Batch& batch) {
    std::vector<jit::IValue> inputs(batch.begin(), batch.end() - 1);
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
  const ScoreLoss loss_;
  std::vector<Kept> buffers_;
};

struct NamedLoss {
  std::string_view name;
  ScoreLoss loss;
};
constexpr std::array kLosses{NamedLoss{"cross-entropy", ScoreLoss::cross_entropy},
                             NamedLoss{"mse", ScoreLoss::mse}, NamedLoss{"bce", ScoreLoss::bce}};

}  // namespace

ScoreLoss parse_loss(std::string_view name) {
  std::string names;
  for (const auto& l : kLosses) {
    if (l.name == name) return l.loss;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", l.name);
  }
  throw ConfigError(fmt::format("no loss is called '{}'; there are {}", name, names));
}

ModelInfo script_model(const std::filesystem::path& file, ScoreLoss loss) {
  const auto path = std::filesystem::absolute(file);
  std::int64_t trained = 0;
  for (const auto& p : load(path).parameters()) trained += p.requires_grad() ? p.numel() : 0;
  if (trained == 0) throw DataError(fmt::format("{}: the network has no parameters to train", file.string()));
  ModelInfo info;
  info.name = "script:" + path.string();  // whole, for workers may be elsewhere
  info.summary = "a network of your own, from a TorchScript file";
  info.parameters = trained;
  info.measures = measures_of(loss);
  info.build = [path, loss](const ModelOptions&) { return std::make_shared<ScriptModel>(load(path), loss); };
  return info;
}

}  // namespace tutti::models
