// How the ranks of a process group find each other: through the c10d store that the group was given.
#pragma once

#include <string>
#include <vector>

#include "c10d_types.h"

namespace tutti::torch_backend {

// One thread uses it. Every rank makes the same calls in the same order.
class StoreMeeting {
 public:
  // The store is the group's own: torch gives each group another prefix.
  StoreMeeting(c10::intrusive_ptr<c10d::Store> store, int rank, int world)
      : store_(std::move(store)), rank_(rank), world_(world) {}

  int rank() const { return rank_; }
  int world() const { return world_; }

  // Everyone's text, by rank. Blocks until all have come, as long as the store waits; then throws RunError
  // that names who has not.
  std::vector<std::string> all_gather(const std::string& mine);

 private:
  std::string key(int rank) const;

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int world_;
  int round_ = 0;
};

}  // namespace tutti::torch_backend
