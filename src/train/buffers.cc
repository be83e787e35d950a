#include "train/buffers.h"

#include "base/error.h"

namespace tutti::train {
namespace {

using Views = std::vector<std::pair<std::string, torch::Tensor>>;

// All buffers of one type in one row, so that they travel in one message; and back.
template <typename T, typename Exchange>
void in_one_row(const Views& views, torch::ScalarType type, const Exchange& exchange) {
  std::vector<std::span<T>> parts;
  std::vector<T> row;
  for (const auto& named : views) {
    const torch::Tensor& view = named.second;
    if (view.scalar_type() != type) continue;
    parts.emplace_back(view.data_ptr<T>(), static_cast<std::size_t>(view.numel()));
    row.insert(row.end(), parts.back().begin(), parts.back().end());
  }
  if (row.empty()) return;
  exchange(row);
  const T* from = row.data();
  for (const std::span<T> part : parts) {
    std::copy_n(from, part.size(), part.begin());
    from += part.size();
  }
}

}  // namespace

Buffers::Buffers(const models::Model& model) {
  for (const auto& item : model.named_buffers()) {
    const torch::Tensor& b = item.value();
    TUTTI_CHECK(b.is_contiguous() && (b.scalar_type() == torch::kFloat32 || b.scalar_type() == torch::kInt64),
                "{}", item.key());
    views_.emplace_back(item.key(), b);
  }
}

void Buffers::average(collectives::Collectives& all) const {
  using collectives::ReduceOp;
  in_one_row<float>(views_, torch::kFloat32, [&](auto& row) {
    all.all_reduce({row.data(), row.size(), DType::f32}, ReduceOp::average, "running statistics");
  });
  in_one_row<std::int64_t>(views_, torch::kInt64, [&](auto& row) {
    all.all_reduce({row.data(), row.size(), DType::i64}, ReduceOp::max, "running statistics");
  });
}

void Buffers::broadcast(collectives::Collectives& all) const {
  in_one_row<float>(views_, torch::kFloat32, [&](auto& row) {
    all.broadcast({row.data(), row.size(), DType::f32}, Rank{0}, "running statistics");
  });
  in_one_row<std::int64_t>(views_, torch::kInt64, [&](auto& row) {
    all.broadcast({row.data(), row.size(), DType::i64}, Rank{0}, "running statistics");
  });
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

}  // namespace tutti::train
