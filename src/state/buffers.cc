#include "state/buffers.h"

#include <array>

#include "base/error.h"
#include "state/stored_type.h"

namespace tutti::state {
namespace {

constexpr std::array kTypes{DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64};

bool is_integer(DType type) {
  return type == DType::i32 || type == DType::i64;
}

// All buffers of one type in one row, so that they travel in one message; and back.
template <typename Exchange>
void in_one_row(const NamedTensors& views, DType type, const Exchange& exchange) {
  std::vector<torch::Tensor> parts;
  for (const auto& [name, view] : views) {
    if (stored_type(view.scalar_type()) == type) parts.push_back(view.reshape({-1}).to(torch_type(type)));
  }
  if (parts.empty()) return;
  const torch::Tensor row = torch::cat(parts);
  if (row.numel() == 0) return;
  exchange(collectives::Buffer{row.data_ptr(), static_cast<std::size_t>(row.numel()), type});
  std::int64_t first = 0;
  for (const auto& [name, view] : views) {
    if (stored_type(view.scalar_type()) != type) continue;
    torch::Tensor(view).copy_(row.narrow(0, first, view.numel()).view(view.sizes()));
    first += view.numel();
  }
}

void require_storable(const std::string& name, const torch::Tensor& buffer) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("buffer {} {}", name, why));
  };
  if (!buffer.device().is_cpu() || buffer.layout() != torch::kStrided) {
    refuse(fmt::format("is on {}, dense ones on the CPU can be kept", buffer.device().str()));
  }
  if (!stored_type(buffer.scalar_type())) {
    refuse(fmt::format("is of {}, which cannot be kept", c10::toString(buffer.scalar_type())));
  }
  for (std::int64_t d = 0; d < buffer.dim(); ++d) {
    if (buffer.size(d) > 1 && buffer.stride(d) == 0) {
      refuse("has elements that share memory (expand()); register a clone() of it");
    }
  }
}

}  // namespace

Buffers::Buffers(const torch::nn::Module& module) {
  for (const auto& item : module.named_buffers()) {
    if (!item.value().defined()) continue;
    require_storable(item.key(), item.value());
    views_.emplace_back(item.key(), item.value());
  }
}

void Buffers::average(collectives::Collectives& all) const {
  using collectives::ReduceOp;
  const torch::NoGradGuard no_grad;
  for (const DType type : kTypes) {
    in_one_row(views_, type, [&](const collectives::Buffer& row) {
      all.all_reduce(row, is_integer(type) ? ReduceOp::max : ReduceOp::average, "running statistics");
    });
  }
}

void Buffers::broadcast(collectives::Collectives& all) const {
  const torch::NoGradGuard no_grad;
  for (const DType type : kTypes) {
    in_one_row(views_, type,
               [&](const collectives::Buffer& row) { all.broadcast(row, Rank{0}, "running statistics"); });
  }
}

std::vector<torch::Tensor> Buffers::copy() const {
  std::vector<torch::Tensor> values;
  for (const auto& named : views_) values.push_back(named.second.detach().clone());
  return values;
}

void Buffers::restore(const std::vector<torch::Tensor>& values) const {
  TUTTI_CHECK(values.size() == views_.size());
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i) torch::Tensor(views_[i].second).copy_(values[i]);
}

}  // namespace tutti::state
