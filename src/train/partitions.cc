#include "train/partitions.h"

#include "train/measure.h"

namespace tutti::train {
namespace {

// The first step after a change fills buffers; the median of the others counts.
constexpr std::size_t kStepsEach = 9;

}  // namespace

PartitionSearch::PartitionSearch(int servers) {
  for (const int factor : {1, 2, 4, 8}) counts_.push_back(servers * factor);
}

std::optional<int> PartitionSearch::after_step(Clock::duration waited, collectives::Collectives& workers) {
  if (choice_) return std::nullopt;
  waited_.push_back(std::chrono::duration<double>(waited).count());
  if (waited_.size() < kStepsEach) return std::nullopt;
  double median = quantile({waited_.begin() + 1, waited_.end()}, 0.5);
  workers.all_reduce({&median, 1, DType::f64}, collectives::ReduceOp::max, "timing partitions");
  waited_.clear();
  const int tried = counts_[trials_.size()];
  trials_.push_back({tried, median});
  if (trials_.size() < counts_.size()) return counts_[trials_.size()];
  choice_ = ps::choose_partitions(trials_, counts_.back());
  return choice_->partitions == tried ? std::nullopt : std::optional(choice_->partitions);
}

observe::PartitionsTried PartitionSearch::report() const {
  observe::PartitionsTried tried;
  for (const auto& t : trials_) tried.trials.push_back({t.partitions, t.seconds * 1e3});
  if (choice_) {
    tried.chosen = choice_->partitions;
    tried.reason = choice_->reason;
  }
  return tried;
}

}  // namespace tutti::train
