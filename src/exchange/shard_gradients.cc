#include "exchange/shard_gradients.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tutti::exchange {
namespace {

// A block of both operands stays in the nearest cache between adding and clearing.
constexpr std::size_t kBlock = 2048;

void add(std::span<float> into, std::span<const float> from) {
  collectives::combine(DType::f32, collectives::ReduceOp::sum, into.data(), from.data(), into.size());
}

// Calls what(first, count) for each block of so many elements.
template <typename What>
void in_blocks(std::size_t elements, const What& what) {
  for (std::size_t first = 0; first < elements; first += kBlock) {
    what(first, std::min(kBlock, elements - first));
  }
}

}  // namespace

ShardGradients::ShardGradients(grad::Buckets& buckets, int shards, Rank rank, int world, FiniteGuard* finite)
    : buckets_(buckets),
      tree_(shards),
      run_(tree_.run_of(to_int(rank), world)),
      held_(tree_.held_of(run_)),
      finite_(finite),
      waiting_(buckets.size()) {
  TUTTI_CHECK(buckets.places() >= nodes(), "{} places for {} sums", buckets.places(), nodes());
}

std::span<float> ShardGradients::place_of(std::size_t bucket, std::size_t waiting) {
  const int place = static_cast<int>(waiting) + 1;
  if (place < buckets_.places()) return buckets_.place(bucket, place);
  auto& beside = waiting_[bucket].beside;
  const std::size_t index = static_cast<std::size_t>(place - buckets_.places());
  if (index >= beside.size()) beside.emplace_back(buckets_.gradients(bucket).size());
  return beside[index];
}

void ShardGradients::set_aside(std::size_t phase) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (buckets_.layout(b).phase == phase) set_aside_bucket(b);
  }
}

void ShardGradients::set_aside_bucket(std::size_t bucket) {
  Waiting& waiting = waiting_[bucket];
  const auto leaf = buckets_.gradients(bucket);
  const int shard = run_.first + waiting.done++;
  TUTTI_CHECK(shard + 1 < run_.last, "the last shard is not set aside");
  if (watch_ != nullptr) watch_->shard_gradient(bucket, shard);
  if (finite_ != nullptr) finite_->shard_gradient(bucket);
  // The sum of two brothers stays in the place of the first, which is also where it waits.
  bool in_leaf = true;
  tree_.take_in(waiting.nodes, {shard, 1}, [&](std::size_t brother) {
    const auto into = place_of(bucket, brother);
    if (!std::exchange(in_leaf, false)) return add(into, place_of(bucket, brother + 1));
    in_blocks(leaf.size(), [&](std::size_t first, std::size_t count) {
      add(into.subspan(first, count), leaf.subspan(first, count));
      std::ranges::fill(leaf.subspan(first, count), 0.0F);
    });
  });
  if (!in_leaf) return;
  const auto into = place_of(bucket, waiting.nodes.size() - 1);
  in_blocks(leaf.size(), [&](std::size_t first, std::size_t count) {
    std::ranges::copy(leaf.subspan(first, count), into.subspan(first).begin());
    std::ranges::fill(leaf.subspan(first, count), 0.0F);
  });
}

void ShardGradients::complete(std::size_t bucket) {
  Waiting& waiting = waiting_[bucket];
  auto& nodes = waiting.nodes;
  TUTTI_CHECK(waiting.done + 1 == run_.count(), "{} of {} shards were set aside", waiting.done, run_.count());
  if (watch_ != nullptr) watch_->shard_gradient(bucket, run_.last - 1);
  if (finite_ != nullptr) finite_->shard_gradient(bucket);
  const auto sum = buckets_.gradients(bucket);
  tree_.take_in(nodes, {run_.last - 1, 1}, [&](std::size_t brother) { add(sum, place_of(bucket, brother)); });
  TUTTI_CHECK(nodes.size() == held_.size(), "{} sums are left, not {}", nodes.size(), held_.size());
  nodes.clear();
  waiting.done = 0;
}

std::vector<collectives::Buffer> ShardGradients::places(std::size_t bucket) {
  std::vector<collectives::Buffer> all;
  for (int p = 0; p < buckets_.places(); ++p) {
    const auto place = buckets_.place(bucket, p);
    all.push_back({place.data(), place.size(), DType::f32});
  }
  return all;
}

}  // namespace tutti::exchange
