// Waiting for others: when it is in vain, and how the launcher sees who waits.
#pragma once

#include "net/status_board.h"

namespace tutti::net {

// A process may take this long to start, whatever the time-out for its work: it reads libraries from a disk
// and can show nothing meanwhile.
inline constexpr std::chrono::seconds kTimeToStart{30};

// Says when a wait for others is in vain: nobody in the job has got anything done for a while. A peer that
// evaluates, loads or saves gets on, and so does whom it waits for in turn; a job in which all stand still
// does not. One thread uses it. The board outlives it.
class Stall {
 public:
  // Counts from now.
  Stall(const StatusBoard& board, Clock::duration timeout);

  // Whether no rank has made progress for the time-out. Asked again and again during a wait: between two
  // questions no more than a second counts, so that a process which was suspended (Ctrl-Z) blames nobody
  // when it goes on.
  bool over();

  // How long nobody has made progress, and how long that may still go on, as of the last question.
  Clock::duration standing() const { return standing_; }
  Clock::duration left() const { return timeout_ - standing_; }
  std::chrono::milliseconds standing_ms() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(standing_);
  }

 private:
  const StatusBoard& board_;
  Clock::duration timeout_;
  std::uint64_t seen_;  // progress of all
  Clock::time_point asked_;
  Clock::duration standing_{};
};

// While it lives, the board shows that a thread of this rank waits for others, which is no lack of progress.
class Waiting {
 public:
  Waiting(const StatusBoard& board, Rank self) : board_(board), self_(self) { board_.begin_wait(self_); }
  ~Waiting() { board_.end_wait(self_); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  const StatusBoard& board_;
  const Rank self_;
};

}  // namespace tutti::net
