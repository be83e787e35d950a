// Keeps NaN and infinite numbers out of the parameters.
//
// Every number is looked at once, by the worker that made it and before it leaves: a loss before backward, a
// gradient when its bucket is full. Numbers that will be added up over the workers must be so small that no
// sum of them can overflow, so that a mean need not be looked at again.
//
//   stop   the worker throws NonFinite, which names the rank and the tensor, instead of sending. The others
//          lose a peer, and the launcher tells whose fault it was.
//   skip   nothing of such a step (of such a phase, where a step has several) is applied, by anybody. Where
//          workers average, NaN travels through the mean by itself and everyone finds it there; where servers
//          update, workers hold their gradients back until all of them are known to be good.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "collectives/collectives.h"
#include "exchange/finite_options.h"
#include "exchange/gradient_watch.h"
#include "grad/buckets.h"

namespace tutti::exchange {

// What a step has seen is begun by begin_step(), while nobody looks; looks come from any thread. The buckets
// outlive it.
class FiniteGuard {
 public:
  FiniteGuard(grad::Buckets& buckets, const FiniteOptions& options);

  bool skips() const { return options_.policy == OnNonFinite::skip; }

  // Between steps: every gradient of this worker's own passes here, so somebody else who is to see them does,
  // too, before they are looked at. Null: nobody. Outlives it.
  void watch(GradientWatch* watch) { watch_ = watch; }

  // Counts from 1.
  void begin_step(std::int64_t step);

  // Whether the number can be used. One that cannot is a NonFinite under stop; under skip it is remembered.
  // An unusable loss also makes the gradients of its phase unusable, before backward adds to them, and an
  // unusable gradient of a bucket holds a NaN after it.
  bool loss(std::size_t phase, double value);
  bool own_gradient(std::size_t bucket);
  // By shards: what lies in the first place of the bucket is one shard's; own_gradient() then only says
  // whether all of them were usable. So what is found does not depend on which shards a worker adds up.
  void shard_gradient(std::size_t bucket);
  void own_rows(const std::string& table, std::span<const float> values);

  // Of a mean over the workers, under skip: whether every worker's gradient was usable. What is found is not
  // remembered: the worker that brought it does.
  bool mean_gradient(std::size_t bucket);

  // This step, or a phase of it, is left out.
  void skip() { skipped_ = true; }
  bool skipped() const { return skipped_; }

  // The first that this worker could not use in this step, in words; empty: there was none.
  std::string found() const;

  // Spent looking in this step.
  Clock::duration time() const { return Clock::duration(time_.load()); }

 private:
  bool look(std::span<const float> values, unsigned limit);
  bool look_at_first_place(std::size_t bucket);
  // Throws NonFinite under stop.
  void report(std::string what);

  grad::Buckets& buckets_;
  const FiniteOptions options_;
  const unsigned limit_;  // of what will be added up
  GradientWatch* watch_ = nullptr;
  std::int64_t step_ = 0;
  bool skipped_ = false;
  // By bucket: a shard of this step was. One thread at a time looks at a bucket.
  std::vector<char> unusable_;
  std::atomic<Clock::rep> time_{0};
  mutable std::mutex mutex_;
  std::string found_;  // guarded by mutex_
};

// Whether it is true on every worker. A collective call.
bool true_for_all(collectives::Collectives& workers, bool mine, std::string_view label);

}  // namespace tutti::exchange
