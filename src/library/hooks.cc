// The hooks that come with the library.
#include "tutti/hook.h"

#include <torch/torch.h>

#include <cmath>
#include <map>

#include "base/error.h"

namespace tutti {
namespace {

class HalfHook final : public Hook {
 public:
  explicit HalfHook(torch::ScalarType type) : type_(type) {}

  void average(Workers& all, int /*bucket*/, torch::Tensor gradients) override {
    // Divided before it is rounded: a sum of many must not leave the range of 16 bits.
    auto half = (gradients / all.size()).to(type_);
    all.all_reduce(half, ReduceOp::sum);
    gradients.copy_(half);
  }

 private:
  const torch::ScalarType type_;
};

// What earlier steps have left behind of each bucket.
class Residuals {
 public:
  // Adds it to the gradients.
  torch::Tensor with(int bucket, const torch::Tensor& gradients) {
    auto& kept = kept_[bucket];
    return kept.defined() ? gradients + kept : gradients.clone();
  }
  void keep(int bucket, torch::Tensor rest) { kept_[bucket] = std::move(rest); }

 private:
  std::map<int, torch::Tensor> kept_;
};

class TopKHook final : public Hook {
 public:
  explicit TopKHook(double share) : share_(share) {}

  void average(Workers& all, int bucket, torch::Tensor gradients) override {
    auto whole = residuals_.with(bucket, gradients);
    const auto count = std::max<std::int64_t>(1, std::llround(share_ * static_cast<double>(whole.numel())));
    const auto places = std::get<1>(whole.abs().topk(count, 0, true, false));
    const auto all_places = all.all_gather(places.to(torch::kInt32));
    const auto all_values = all.all_gather(whole.index_select(0, places));
    if (!all_values.isfinite().all().item<bool>()) {  // on every process alike: nothing of it is kept
      gradients.fill_(NAN);
      return;
    }
    residuals_.keep(bucket, whole.index_fill_(0, places, 0));
    gradients.zero_();
    for (std::int64_t r = 0; r < all.size(); ++r) {
      gradients.index_add_(0, all_places[r].to(torch::kInt64), all_values[r] / all.size());
    }
  }

 private:
  const double share_;
  Residuals residuals_;
};

class PowerSgdHook final : public Hook {
 public:
  explicit PowerSgdHook(int rank) : rank_(rank) {}

  void average(Workers& all, int bucket, torch::Tensor gradients) override {
    const std::int64_t n = gradients.numel();
    const auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(n))));
    const std::int64_t columns = std::min<std::int64_t>(rank_, side);
    const auto whole = residuals_.with(bucket, gradients);
    auto matrix = torch::zeros({side * side});
    matrix.narrow(0, 0, n).copy_(whole);
    matrix = matrix.view({side, side});
    auto& q = q_[bucket];
    // The same first guess on every process: cosines of all frequencies, which no gradient is orthogonal to.
    if (!q.defined()) {
      q = torch::cos(torch::arange(side * columns, torch::kFloat64).view({side, columns}) * 0.7)
              .to(torch::kFloat32);
    }
    auto p = matrix.matmul(q);
    all.all_reduce(p);
    if (!p.isfinite().all().item<bool>()) {  // on every process alike: nothing of it is kept
      gradients.fill_(NAN);
      return;
    }
    p = std::get<0>(torch::linalg_qr(p));
    q = matrix.t().matmul(p);
    all.all_reduce(q);
    const auto close = p.matmul(q.t()).flatten().narrow(0, 0, n);
    residuals_.keep(bucket, whole - close);
    gradients.copy_(close);
  }

 private:
  const int rank_;
  Residuals residuals_;
  std::map<int, torch::Tensor> q_;  // by bucket: of the step before, where this one begins
};

}  // namespace

std::shared_ptr<Hook> bf16_hook() {
  return std::make_shared<HalfHook>(torch::kBFloat16);
}

std::shared_ptr<Hook> fp16_hook() {
  return std::make_shared<HalfHook>(torch::kFloat16);
}

std::shared_ptr<Hook> top_k_hook(double share) {
  if (!(share > 0 && share <= 1))
    throw ConfigError(fmt::format("top_k_hook: the share is {}, but must be above 0 and at most 1", share));
  return std::make_shared<TopKHook>(share);
}

std::shared_ptr<Hook> power_sgd_hook(int rank) {
  if (rank < 1) throw ConfigError(fmt::format("power_sgd_hook: the rank is {}, but must be 1 or more", rank));
  return std::make_shared<PowerSgdHook>(rank);
}

}  // namespace tutti
