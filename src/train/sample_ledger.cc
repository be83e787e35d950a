#include "train/sample_ledger.h"

#include <map>

#include "base/random.h"
#include "base/xxh64.h"

namespace tutti::train {

void SampleLedger::add(std::uint64_t epoch, std::span<const std::uint32_t> samples) {
  if (samples.empty()) return;
  const auto number = static_cast<std::int64_t>(epoch);
  // Batches come in their order, so it is the last one but for the first batch of an epoch.
  if (epochs_.empty() || epochs_.back().epoch != number) epochs_.push_back({.epoch = number});
  EpochSums& sums = epochs_.back();
  for (const std::uint32_t sample : samples) {
    sums.first += mix_seed({0, sample});
    sums.second += mix_seed({1, sample});
  }
  sums.samples += samples.size();
}

std::vector<EpochSums> counted_before(const std::optional<std::vector<EpochSums>>& in_checkpoint,
                                      std::int64_t first_step, std::int64_t steps_per_epoch) {
  if (in_checkpoint) return *in_checkpoint;
  if (first_step % steps_per_epoch == 0) return {};
  return {{.epoch = first_step / steps_per_epoch, .partial = true}};
}

std::vector<EpochSums> joined(std::span<const std::vector<EpochSums>> workers) {
  std::map<std::int64_t, EpochSums> by_epoch;
  for (const auto& worker : workers) {
    for (const EpochSums& one : worker) {
      EpochSums& all = by_epoch[one.epoch];
      all.epoch = one.epoch;
      all.samples += one.samples;
      all.first += one.first;
      all.second += one.second;
      all.partial = all.partial || one.partial;
    }
  }
  std::vector<EpochSums> epochs;
  for (const auto& [epoch, sums] : by_epoch) epochs.push_back(sums);
  return epochs;
}

std::vector<EpochSums> gathered(collectives::Collectives& all, const SampleLedger& mine) {
  std::vector<std::vector<EpochSums>> workers;
  for (const auto& text : collectives::gather_text(all, nlohmann::json(mine.epochs()).dump(), "samples")) {
    workers.push_back(nlohmann::json::parse(text).get<std::vector<EpochSums>>());
  }
  return joined(workers);
}

std::vector<observe::EpochSamples> shown(std::span<const EpochSums> epochs, bool workers_lost) {
  std::vector<observe::EpochSamples> list;
  for (const EpochSums& e : epochs) {
    list.push_back({.epoch = e.epoch + 1,
                    .samples = e.samples,
                    .digest = hex64(e.first) + hex64(e.second),
                    .partial = e.partial || workers_lost});
  }
  return list;
}

}  // namespace tutti::train
