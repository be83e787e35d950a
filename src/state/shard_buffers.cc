#include "state/shard_buffers.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tutti::state {
namespace {

bool is_counted(const torch::Tensor& buffer) {
  return !buffer.is_floating_point();
}

// All buffers of one kind in one row. Doubles hold every number that they have.
template <typename Number>
std::vector<Number> row_of(const NamedTensors& views, bool counted, torch::ScalarType type) {
  std::vector<Number> row;
  for (const auto& [name, view] : views) {
    if (is_counted(view) != counted) continue;
    const torch::Tensor flat = view.detach().to(type).contiguous().view({-1});
    row.insert(row.end(), flat.data_ptr<Number>(), flat.data_ptr<Number>() + flat.numel());
  }
  return row;
}

template <typename Number>
void lay_out(std::vector<Number>& row, const NamedTensors& views, bool counted, torch::ScalarType type) {
  std::size_t first = 0;
  for (const auto& [name, view] : views) {
    if (is_counted(view) != counted) continue;
    torch::Tensor(view).copy_(torch::from_blob(row.data() + first, view.sizes(), type));
    first += static_cast<std::size_t>(view.numel());
  }
}

}  // namespace

ShardBuffers::ShardBuffers(const Buffers& buffers, const ShardTree& tree, collectives::Collectives& workers)
    : buffers_(buffers),
      tree_(tree),
      run_(tree.run_of(to_int(workers.rank()), workers.world())),
      workers_(workers) {}

void ShardBuffers::begin_step() {
  if (!buffers_.empty()) before_ = buffers_.copy();
}

void ShardBuffers::begin_shard() {
  if (!buffers_.empty() && done_ > 0) buffers_.restore(before_);
}

void ShardBuffers::end_shard() {
  if (buffers_.empty()) return;
  const auto counted = row_of<std::int64_t>(buffers_.views(), true, torch::kInt64);
  if (done_ == 0) counted_ = counted;
  for (std::size_t i = 0; i < counted.size(); ++i) counted_[i] = std::max(counted_[i], counted[i]);
  auto measured = row_of<double>(buffers_.views(), false, torch::kFloat64);
  tree_.take_in(nodes_, {run_.first + done_++, 1}, [&](std::size_t brother) {
    for (std::size_t i = 0; i < measured.size(); ++i) measured[i] += measured_[brother][i];
    measured_.pop_back();
  });
  measured_.push_back(std::move(measured));
}

void ShardBuffers::finish_phase() {
  if (buffers_.empty()) return;
  TUTTI_CHECK(done_ == run_.count(), "{} of {} shards", done_, run_.count());
  const torch::NoGradGuard no_grad;
  // The last node lies in the first place (ShardTree::held_of).
  std::rotate(measured_.begin(), measured_.end() - 1, measured_.end());
  measured_.resize(static_cast<std::size_t>(tree_.places_of(workers_.world())));
  const std::size_t count = measured_.front().size();
  std::vector<collectives::Buffer> places;
  for (auto& measured : measured_) {
    measured.resize(count);
    places.push_back({measured.data(), count, DType::f64});
  }
  if (count > 0) {
    workers_.average_shards(collectives::Operation::all_reduce, {tree_, places}, Rank{0},
                            "running statistics");
    lay_out(measured_.front(), buffers_.views(), false, torch::kFloat64);
  }
  if (!counted_.empty()) {
    workers_.all_reduce({counted_.data(), counted_.size(), DType::i64}, collectives::ReduceOp::max,
                        "running statistics");
    lay_out(counted_, buffers_.views(), true, torch::kInt64);
  }
  nodes_.clear();
  measured_.clear();
  done_ = 0;
  before_ = buffers_.copy();
}

}  // namespace tutti::state
