// Which samples a run has trained on, epoch by epoch, whichever worker has taken which.
//
// A sample adds two mixes of its number to two sums modulo 2^64. Sums do not mind an order, so every worker
// counts the batches that it has trained on, and their sums are added up: an epoch in which each sample was
// used once has the same digest at every number of workers, and one that was left out, repeated or exchanged
// for another shows.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "collectives/collectives.h"
#include "observe/summary.h"

namespace tutti::train {

// Of one epoch, what one worker has counted or all of them together.
struct EpochSums {
  std::int64_t epoch = 0;  // from 0
  std::uint64_t samples = 0;
  std::uint64_t first = 0;  // the two sums
  std::uint64_t second = 0;
  bool partial = false;  // steps of it were made that nobody has counted
  bool operator==(const EpochSums&) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EpochSums, epoch, samples, first, second, partial)

// A worker's. One thread.
class SampleLedger {
 public:
  // What was counted before this run's first step, by all workers; one of them goes on from it.
  explicit SampleLedger(std::vector<EpochSums> before = {}) : epochs_(std::move(before)) {}

  // A step was made with these samples.
  void add(std::uint64_t epoch, std::span<const std::uint32_t> samples);

  const std::vector<EpochSums>& epochs() const { return epochs_; }

 private:
  std::vector<EpochSums> epochs_;  // rising
};

// What a run goes on with that begins behind `first_step` steps: what its checkpoint says, if that says
// something; else that the epoch in which it begins is partial.
std::vector<EpochSums> counted_before(const std::optional<std::vector<EpochSums>>& in_checkpoint,
                                      std::int64_t first_step, std::int64_t steps_per_epoch);

// Of several workers together, by epoch.
std::vector<EpochSums> joined(std::span<const std::vector<EpochSums>> workers);

// The same over all workers. A collective call.
std::vector<EpochSums> gathered(collectives::Collectives& all, const SampleLedger& mine);

// As summary.json has it. What workers have counted that are lost is lost with them.
std::vector<observe::EpochSamples> shown(std::span<const EpochSums> epochs, bool workers_lost);

}  // namespace tutti::train
