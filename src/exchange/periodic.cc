#include "exchange/periodic.h"

#include <fmt/format.h>

#include <algorithm>

#include "exchange/broadcast.h"

namespace tutti::exchange {

using collectives::Operation;
using collectives::ReduceOp;

void Periodic::start(std::int64_t step, bool with_state) {
  steps_ = step;
  // With state every worker has restored a replica of its own, which is not rank 0's.
  if (!with_state) start_like_first(all_, buckets_, updater_, false);
}

// The gradients have been applied and lie in memory that peers can read: a staging area for the parameters,
// which do not. It is cleared for the next step.
template <typename Do>
void Periodic::at_every_bucket(const Do& act) {
  const auto begin = Clock::now();
  const auto sent = all_.bytes_sent();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    act(b, buckets_.parameters(b), buckets_.gradients(b));
    std::ranges::fill(buckets_.gradients(b), 0.0F);
  }
  const auto end = Clock::now();
  trace_.add(observe::Lane::exchange, "synchronise", begin, end);
  times_ = {.busy = end - begin, .exposed = end - begin};
  bytes_sent_ += all_.bytes_sent() - sent;
}

void Periodic::finish_phase(std::size_t phase) {
  walk_.finish_phase(phase, [this](std::size_t bucket) { updater_.apply_own(bucket); });
}

void Periodic::finish_step() {
  times_ = {};
  walk_.finish_step([this](std::size_t bucket) { updater_.apply_own(bucket); });
  if (++steps_ % every_ == 0) at_every_bucket([this](auto... bucket) { synchronise(bucket...); });
}

void Periodic::finish(Afterwards /*afterwards*/) {
  at_every_bucket([this](auto... bucket) { agree(bucket...); });
}

void LocalSgd::synchronise(std::size_t bucket, std::span<float> parameters, std::span<float> staging) {
  std::ranges::copy(parameters, staging.begin());
  all_.all_reduce({staging.data(), staging.size(), DType::f32}, ReduceOp::average,
                  fmt::format("parameters of bucket {}", bucket));
  std::ranges::copy(staging, parameters.begin());
}

ElasticAveraging::ElasticAveraging(grad::Buckets& buckets, Updater& updater, collectives::Collectives& all,
                                   std::int64_t every, double moving_rate, observe::Trace& trace)
    : Periodic(buckets, updater, all, every, trace), rate_(static_cast<float>(moving_rate)) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) centre_.emplace_back(buckets_.parameters(b).size());
}

void ElasticAveraging::start(std::int64_t step, bool with_state) {
  Periodic::start(step, with_state);
  if (with_state) {
    return broadcast_from_first(all_, buckets_, {centre_.begin(), centre_.end()}, "the centre");
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    std::ranges::copy(buckets_.parameters(b), centre_[b].begin());
}

std::vector<NamedState> ElasticAveraging::own_state() {
  return {{"centre", {centre_.begin(), centre_.end()}}};
}

void ElasticAveraging::synchronise(std::size_t bucket, std::span<float> parameters,
                                   std::span<float> staging) {
  auto& centre = centre_[bucket];
  for (std::size_t i = 0; i < staging.size(); ++i) {
    staging[i] = rate_ * (parameters[i] - centre[i]);
    parameters[i] -= staging[i];
  }
  all_.all_reduce({staging.data(), staging.size(), DType::f32}, ReduceOp::sum,
                  fmt::format("differences of bucket {}", bucket));
  for (std::size_t i = 0; i < staging.size(); ++i) centre[i] += staging[i];
}

void ElasticAveraging::agree(std::size_t bucket, std::span<float> parameters, std::span<float> staging) {
  synchronise(bucket, parameters, staging);
  std::ranges::copy(centre_[bucket], parameters.begin());
}

Strategy local_sgd() {
  return {.name = "local-sgd",
          .summary = "average the parameters every --sync-every steps",
          .replicas_differ = true,
          .settings = {"sync_every"},
          .collectives = {Operation::all_reduce},
          .make = [](const Parts& p, const Tuning& tuning) {
            return std::make_unique<LocalSgd>(p.buckets, p.updater, p.workers, tuning.sync_every, p.trace);
          }};
}

Strategy easgd() {
  return {.name = "easgd",
          .summary = "elastic averaging around a centre every --sync-every steps",
          .replicas_differ = true,
          .settings = {"sync_every", "moving_rate"},
          .collectives = {Operation::all_reduce},
          .make = [](const Parts& p, const Tuning& tuning) {
            return std::make_unique<ElasticAveraging>(p.buckets, p.updater, p.workers, tuning.sync_every,
                                                      tuning.moving_rate, p.trace);
          }};
}

}  // namespace tutti::exchange
