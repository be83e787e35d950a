// Finds how many partitions tables are best cut into: tries a few counts for some steps each, early in the
// run, and keeps the one that the fit says is fastest (ps/table.h).
#pragma once

#include <optional>
#include <vector>

#include "base/deadline.h"
#include "collectives/collectives.h"
#include "observe/summary.h"
#include "ps/table.h"

namespace tutti::train {

class PartitionSearch {
 public:
  explicit PartitionSearch(int servers);

  // With this count the run begins.
  int first() const { return counts_[0]; }

  // A step has waited so long for its rows. Says with how many partitions to go on, where that changes. All
  // workers call it after the same steps and get the same answer.
  std::optional<int> after_step(Clock::duration waited, collectives::Collectives& workers);

  // Once it is decided: the count, the reason and the trials.
  const std::optional<ps::PartitionChoice>& choice() const { return choice_; }
  observe::PartitionsTried report() const;

 private:
  std::vector<int> counts_;
  std::vector<double> waited_;  // of the count that is tried, by step
  std::vector<ps::PartitionTrial> trials_;
  std::optional<ps::PartitionChoice> choice_;
};

}  // namespace tutti::train
