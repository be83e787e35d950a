// How the ranks of a process group find each other: through the c10d store that the group was given.
#pragma once

#include <string>
#include <vector>

#include "c10d_types.h"

namespace tutti::torch_backend {

// One thread uses it. Every rank makes the same calls in the same order.
class StoreMeeting {
 public:
  // The store is the group's own: torch gives each group another prefix. But a group that is made after
  // another was destroyed may be given the same store and prefix, where the texts of the earlier meeting
  // still are. So meetings are numbered: by each rank for itself, in the store, since all of them take part
  // in each.
  StoreMeeting(c10::intrusive_ptr<c10d::Store> store, int rank, int world);

  int rank() const { return rank_; }
  int world() const { return world_; }

  // Everyone's text, by rank. Blocks until all have come, as long as the store waits; then throws RunError
  // that names who has not.
  std::vector<std::string> all_gather(const std::string& mine);

 private:
  // Somebody has not come: the next meeting is this one tried again, and finds nothing of it.
  void withdraw() noexcept;
  std::string counter() const;
  std::string key(int round, int rank) const;

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int world_;
  std::int64_t number_;
  int round_ = 0;
};

}  // namespace tutti::torch_backend
