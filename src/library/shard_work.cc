#include "library/shard_work.h"

#include "base/error.h"
#include "base/random.h"

namespace tutti::library {
namespace {

// The library's modules are trained in one.
constexpr std::size_t kPhase = 0;

}  // namespace

ShardWork::ShardWork(exchange::Replica& replica, const torch::nn::Module& module,
                     collectives::Collectives& workers, std::uint64_t seed)
    : replica_(replica),
      buffers_(module),
      shard_buffers_(buffers_, replica.shards->tree(), workers),
      seed_(seed) {}

void ShardWork::begin(std::int64_t step) {
  if (open_) {
    throw ConfigError(
        fmt::format("a loop over shards() begins, but the one before it was left in shard {}", next_));
  }
  if (next_ == run().last) {
    throw ConfigError("a second loop over shards() begins in one step; call step() after the first");
  }
  if (next_ == run().first) shard_buffers_.begin_step();
  shard_buffers_.begin_shard();
  // As `tutti train` draws.
  torch::manual_seed(mix_seed({seed_, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(next_)}));
  open_ = true;
}

void ShardWork::end() {
  shard_buffers_.end_shard();
  if (!at_last()) replica_.set_aside_shard(kPhase);
  ++next_;
  open_ = false;
}

void ShardWork::require_open(const std::string& parameter) const {
  if (!open_)
    throw ConfigError(fmt::format("{} has got a gradient outside of a loop over shards()", parameter));
}

void ShardWork::require_all() const {
  if (next_ == run().last) return;
  throw ConfigError(
      fmt::format("step() was called before shard {} was computed; of each step this process computes shards "
                  "{} to {}, in a loop over shards()",
                  next_, run().first, run().last - 1));
}

void ShardWork::finish_step() {
  shard_buffers_.finish_phase();
  next_ = run().first;
}

}  // namespace tutti::library
