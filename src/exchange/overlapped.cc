#include "exchange/overlapped.h"

#include <fmt/format.h>

#include "base/process.h"
#include "exchange/broadcast.h"

namespace tutti::exchange {

using collectives::Operation;
using collectives::ReduceOp;

Overlapped::Overlapped(const Parts& parts, Average average, Apply apply)
    : buckets_(parts.buckets),
      updater_(parts.updater),
      all_(parts.workers),
      shards_(parts.shards),
      average_(std::move(average)),
      apply_(apply ? std::move(apply) : [this](std::size_t bucket) { updater_.apply(bucket); }),
      trace_(parts.trace),
      departures_(parts.buckets) {
  thread_ = std::thread([this] { communicate(); });
}

Overlapped::~Overlapped() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    // In the middle of a step nobody waits for the result any more, and a peer may never answer.
    if (averaged_ < released_) all_.cancel();
  }
  changed_.notify_all();
  thread_.join();
}

void Overlapped::start(std::int64_t /*step*/, bool with_state) {
  start_like_first(all_, buckets_, updater_, with_state);
}

void Overlapped::on_gradient(grad::ParamId id) {
  if (departures_.arrived(id)) departures_.leave_full([this](std::size_t bucket) { release(bucket); });
}

// Buckets leave in their order, so a count says all: the communication thread averages [averaged_,
// released_).
void Overlapped::release(std::size_t bucket) {
  {
    const std::scoped_lock lock(mutex_);
    released_ = bucket + 1;
  }
  changed_.notify_all();
}

void Overlapped::communicate() {
  name_thread("exchange");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || averaged_ < released_; });
    if (stop_) return;
    const std::size_t bucket = averaged_;
    lock.unlock();
    const auto begin = Clock::now();
    const auto sent = all_.bytes_sent();
    std::exception_ptr failure;
    try {
      average(bucket);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    busy_ += Clock::now() - begin;
    bytes_sent_ += all_.bytes_sent() - sent;
    failure_ = failure;
    // Peers are in the middle of this bucket, or of another one: there is nothing that all of them could go
    // on with. The trainer meets the failure where it waits next.
    if (failure) {
      changed_.notify_all();
      return;
    }
    ++averaged_;
    changed_.notify_all();
  }
}

void Overlapped::average(std::size_t bucket) {
  if (shards_ != nullptr) shards_->complete(bucket);
  updater_.finite().own_gradient(bucket);  // under skip what cannot be used travels on, so that all see it
  const auto begin = Clock::now();
  const auto gradients = buckets_.gradients(bucket);
  average_(all_, bucket, {gradients.data(), gradients.size(), DType::f32},
           fmt::format("bucket {}, step {}", bucket, updater_.step()));
  trace_.add(observe::Lane::exchange, fmt::format("bucket {}", bucket), begin, Clock::now());
}

void Overlapped::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return averaged_ == released_ || failure_; });
  if (failure_) std::rethrow_exception(failure_);
}

void Overlapped::wait_for(std::size_t bucket) {
  const auto begin = Clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return averaged_ > bucket || failure_; });
  if (failure_) std::rethrow_exception(failure_);
  const auto end = Clock::now();
  exposed_ += end - begin;
  trace_.add(observe::Lane::waiting, fmt::format("bucket {}", bucket), begin, end);
}

void Overlapped::take_in(std::size_t bucket) {
  wait_for(bucket);
  apply_(bucket);
}

void Overlapped::finish_phase(std::size_t phase) {
  departures_.leave_phase(phase, [this](std::size_t bucket) { release(bucket); });
  walk_.finish_phase(phase, [this](std::size_t bucket) { take_in(bucket); });
}

void Overlapped::finish_step() {
  departures_.leave_rest([this](std::size_t bucket) { release(bucket); });
  walk_.finish_step([this](std::size_t bucket) { take_in(bucket); });
  departures_.reset();
  const std::scoped_lock lock(mutex_);
  times_ = {.busy = std::exchange(busy_, {}), .exposed = std::exchange(exposed_, {})};
  released_ = averaged_ = 0;
}

namespace {

// A strategy's way for buckets, and for shards in the order of their tree.
using Reduce = std::function<void(collectives::Collectives&, collectives::Buffer, std::string_view label)>;
using ReduceShards =
    std::function<void(collectives::Collectives&, const collectives::ShardSums&, std::string_view label)>;

Overlapped::Average one_of(ShardGradients* shards, const Reduce& whole, const ReduceShards& by_shards) {
  if (shards == nullptr) {
    return [whole](collectives::Collectives& all, std::size_t /*bucket*/, collectives::Buffer buffer,
                   std::string_view label) { whole(all, buffer, label); };
  }
  return [shards, by_shards](collectives::Collectives& all, std::size_t bucket, collectives::Buffer /*first*/,
                             std::string_view label) {
    const auto places = shards->places(bucket);
    by_shards(all, {shards->tree(), places}, label);
  };
}

// Study B's way.
Overlapped::Average average_by_reduce_and_broadcast(ShardGradients* shards) {
  return one_of(
      shards,
      [](collectives::Collectives& all, collectives::Buffer buffer, std::string_view label) {
        all.reduce(buffer, ReduceOp::average, Rank{0}, label);
        all.broadcast(buffer, Rank{0}, label);
      },
      [](collectives::Collectives& all, const collectives::ShardSums& sums, std::string_view label) {
        all.average_shards(Operation::reduce, sums, Rank{0}, label);
        all.broadcast(sums.places[0], Rank{0}, label);
      });
}

Strategy averaging(std::string name, std::string summary, std::vector<Operation> collectives,
                   Overlapped::Average (*own_way)(ShardGradients*)) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .takes_hooks = true,
          .takes_shards = true,
          .takes_uneven_inputs = true,
          .compared_by_default = true,
          .collectives = std::move(collectives),
          .same_traffic_every_step = true,
          .make = [own_way](const Parts& p, const Tuning& tuning) {
            return std::make_unique<Overlapped>(p, tuning.average ? tuning.average : own_way(p.shards));
          }};
}

}  // namespace

Overlapped::Average average_by_all_reduce(ShardGradients* shards) {
  return one_of(
      shards,
      [](collectives::Collectives& all, collectives::Buffer buffer, std::string_view label) {
        all.all_reduce(buffer, ReduceOp::average, label);
      },
      [](collectives::Collectives& all, const collectives::ShardSums& sums, std::string_view label) {
        all.average_shards(Operation::all_reduce, sums, Rank{0}, label);
      });
}

Strategy ring() {
  auto s = averaging("ring", "all-reduce around a ring", {Operation::all_reduce}, average_by_all_reduce);
  s.algorithm = collectives::Algorithm::ring;
  return s;
}

Strategy allreduce() {
  return averaging("allreduce", "all-reduce by the fastest algorithm for this world", {Operation::all_reduce},
                   average_by_all_reduce);
}

Strategy reduce_broadcast() {
  return averaging("reduce-broadcast", "reduce to rank 0, average, broadcast (study B's way)",
                   {Operation::reduce, Operation::broadcast}, average_by_reduce_and_broadcast);
}

}  // namespace tutti::exchange
