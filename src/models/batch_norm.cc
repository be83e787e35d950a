#include "models/batch_norm.h"

#include <torch/nn.h>

namespace tutti::models {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kMomentum = 0.1;
constexpr double kEpsilon = 1e-5;

// One number a channel as a factor of n, c, h, w.
Tensor by_channel(const Tensor& x) {
  return x.view({1, -1, 1, 1});
}

std::span<double> numbers(const Tensor& x) {
  return {x.data_ptr<double>(), static_cast<std::size_t>(x.numel())};
}

struct Statistics {
  Tensor mean, variance;  // of a channel
  double count = 0;       // of numbers in a channel
};

// Of all workers' samples. Sums travel as doubles: a variance is what two large ones leave.
Statistics of_all_workers(const Tensor& x, const SumOverWorkers& sum) {
  const auto [variance, mean] = torch::var_mean(x, {0, 2, 3}, /*unbiased=*/false);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
  const Tensor m = mean.to(torch::kFloat64);
  const Tensor sums = torch::cat(
      {m * count, (variance.to(torch::kFloat64) + m * m) * count, torch::full({1}, count, torch::kFloat64)});
  sum(numbers(sums));
  const auto channels = x.size(1);
  const double all = sums[-1].item<double>();
  const Tensor all_mean = sums.narrow(0, 0, channels) / all;
  const Tensor all_variance = (sums.narrow(0, channels, channels) / all - all_mean * all_mean).clamp_min(0);
  return {all_mean.to(torch::kFloat32), all_variance.to(torch::kFloat32), all};
}

// With y = weight * z + bias and z = (x - mean) / deviation, where mean and deviation depend on every x.
class Normalise : public torch::autograd::Function<Normalise> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const Statistics& s, const SumOverWorkers& sum) {
    context->save_for_backward({x, weight, s.mean, (s.variance + kEpsilon).rsqrt()});
    context->saved_data["count"] = s.count;
    context->saved_data["sum"] = torch::IValue::make_capsule(c10::make_intrusive<Held>(sum));
    return std::get<0>(
        torch::native_batch_norm(x, weight, bias, s.mean, s.variance, /*training=*/false, 0, kEpsilon));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& weight = saved[1];
    const Tensor& inverse = saved[3];
    const Tensor& dy = gradients[0];
    const auto channels = x.size(1);
    const Tensor z = (x - by_channel(saved[2])) * by_channel(inverse);
    const Tensor to_bias = dy.sum({0, 2, 3});
    const Tensor to_weight = (dy * z).sum({0, 2, 3});

    const Tensor sums = torch::cat({to_bias, to_weight}).to(torch::kFloat64);
    c10::static_intrusive_pointer_cast<Held>(context->saved_data["sum"].toCapsule())->sum(numbers(sums));
    const Tensor means = (sums / context->saved_data["count"].toDouble()).to(torch::kFloat32);
    const Tensor mean_dy = by_channel(means.narrow(0, 0, channels));
    const Tensor mean_dy_z = by_channel(means.narrow(0, channels, channels));
    const Tensor to_x = (dy - mean_dy - z * mean_dy_z) * by_channel(weight * inverse);
    return {to_x, to_weight, to_bias, {}, {}};
  }

 private:
  struct Held : torch::CustomClassHolder {
    explicit Held(SumOverWorkers s) : sum(std::move(s)) {}
    SumOverWorkers sum;
  };
};

}  // namespace

BatchNorm2dImpl::BatchNorm2dImpl(std::int64_t channels)
    : weight(register_parameter("weight", torch::ones({channels}))),
      bias(register_parameter("bias", torch::zeros({channels}))),
      running_mean(register_buffer("running_mean", torch::zeros({channels}))),
      running_var(register_buffer("running_var", torch::ones({channels}))),
      num_batches_tracked(register_buffer("num_batches_tracked", torch::zeros({}, torch::kInt64))) {}

Tensor BatchNorm2dImpl::forward(const Tensor& x) {
  // Of one number a channel there is no unbiased variance: running statistics stay as they are, because
  // torch's would be NaN from then on.
  const bool tracks = is_training() && (!sum_ || tracks_());
  if (tracks) num_batches_tracked += 1;
  if (!sum_ || !is_training()) {
    const bool keeps = !is_training() || x.numel() > x.size(1);
    return torch::batch_norm(x, weight, bias, keeps ? running_mean : Tensor(), keeps ? running_var : Tensor(),
                             is_training(), kMomentum, kEpsilon, /*cudnn_enabled=*/true);
  }
  Statistics s;
  {
    const torch::NoGradGuard no_grad;
    s = of_all_workers(x, sum_);
    if (tracks && s.count > 1) {
      running_mean.lerp_(s.mean, kMomentum);
      running_var.lerp_(s.variance * (s.count / (s.count - 1)), kMomentum);
    }
  }
  return Normalise::apply(x, weight, bias, s, sum_);
}

int synchronise_batch_norm(const torch::nn::Module& network, const SumOverWorkers& sum,
                           const Tracks& tracks) {
  int count = 0;
  for (const auto& module : network.modules()) {
    if (auto* norm = module->as<BatchNorm2dImpl>()) {
      norm->synchronise(sum, tracks);
      ++count;
    }
  }
  return count;
}

}  // namespace tutti::models
