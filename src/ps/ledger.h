// Who may go on: the rules of consistency as a pure state machine over one piece.
//
// A worker pushes a gradient of a piece, made from some version of it, and waits for the answer: the piece as
// it is when the rules let the worker go on. The ledger sees pushes and says what to do with each gradient
// and whom to answer.
//
//   sync    version v+1 is made from all workers' gradients of version v; nobody is answered before.
//           With B backup workers the first N-B gradients make it; one that comes later is dropped.
//   async   every gradient makes a new version at once, and its worker is answered.
//   ssp     like async, but a worker is answered only while it is at most S pushes ahead of the slowest.
//
// A push is known by (worker, incarnation, sequence), each worker's sequences rising: what comes twice, or
// after a later one, is told from what is new and counts once.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tutti::ps {

enum class Consistency { sync, async, ssp };

struct Policy {
  Consistency consistency = Consistency::sync;
  int workers = 1;
  int backup = 0;     // sync
  int staleness = 0;  // ssp
  bool operator==(const Policy&) const = default;
};

struct Push {
  int worker = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t sequence = 0;
  std::int64_t version = 0;  // that the gradient was made from
};

struct Answer {
  int worker = 0;
  std::int64_t lead = 0;  // pushes ahead of the slowest worker
};

struct Decision {
  enum class Gradient { keep, drop };
  Gradient gradient = Gradient::drop;  // keep: it is, or will be, part of an update
  bool repeated = false;               // dropped because it had come before
  std::int64_t staleness = 0;          // of a kept gradient: versions made since the one it was made from
  std::vector<int> update_from;  // make the next version from these workers' gradients, if any, in this order
  std::vector<Answer> answers;   // then answer these
};

class Ledger {
 public:
  explicit Ledger(const Policy& policy, std::int64_t version = 0);

  // Throws ProtocolError for a version that has not been made yet.
  Decision on_push(const Push& push);
  // This worker pushes no more, because the run is over for it; nobody waits for it from now on. In sync the
  // version is then the last one: what still comes is dropped.
  Decision on_leave(int worker);
  // This worker has died. Nobody waits for it from now on, and a gradient of its that is not part of a
  // version yet never will be; the others go on. In sync a version is made from as many gradients as before,
  // or from all that are left.
  Decision on_drop(int worker);

  std::int64_t version() const { return version_; }
  // A worker for which others have been waiting, if any.
  int awaited() const;

 private:
  struct Worker {
    std::uint32_t incarnation = 0;
    std::uint64_t sequence = 0;  // of the last push
    std::int64_t pushes = 0;
    bool contributes = false;  // sync: its gradient is kept for the next version
    bool waiting = false;      // for an answer
    bool gone = false;
  };

  void forget(int worker);
  std::int64_t gradients_a_version() const;
  void close_round(Decision& decision);
  void answer_eligible(Decision& decision);
  std::int64_t slowest() const;

  Policy policy_;
  bool closed_ = false;  // sync: no more versions
  std::int64_t version_;
  std::vector<Worker> workers_;
};

}  // namespace tutti::ps
