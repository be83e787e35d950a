// Shows on the status board that this process lives, apart from its work.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

#include "net/status_board.h"

namespace tutti::net {

// How often a process shows that it lives.
inline constexpr std::chrono::milliseconds kBeat{250};

// A thread that does nothing but beat for a rank. It goes on while the process computes, waits or sleeps in
// the kernel, and stands still when the process is stopped or killed. The board outlives it.
class Heartbeat {
 public:
  Heartbeat(const StatusBoard& board, Rank self);
  ~Heartbeat();  // says on the board that no more beats follow; blocks for a moment
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void beat(const std::stop_token& stop);

  const StatusBoard& board_;
  const Rank self_;
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tutti::net
