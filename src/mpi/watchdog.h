// Looks after a thread that is in a call which cannot be given up.
//
// MPI's blocking calls return when they are done, and never if a peer was stopped or lost in the midst. A
// thread of the watchdog's finds out. It cannot make the call return, so it ends the process, with the
// reason.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "base/deadline.h"
#include "net/transport.h"

namespace tutti::mpi {

// One thread makes calls, and destroys the watchdog.
class Watchdog {
 public:
  // Whether the call is over; blocks for at most so long.
  using Over = std::function<bool(Clock::duration at_most)>;

  // Runs on the watchdog's thread for a call that takes long, and returns when it is over. If it throws, it
  // is std::terminate that gets the exception: a program that has a line to say before it ends says it there.
  using Watch = std::function<void(const Over& over, const net::Activity& doing)>;

  explicit Watchdog(Watch watch);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // While it lives, its thread is in a call. What it does stays readable as long. Costs a few nanoseconds.
  class Call {
   public:
    Call(Watchdog& watchdog, const net::Activity& doing) : watchdog_(watchdog) { watchdog_.begin(doing); }
    ~Call() { watchdog_.end(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Watchdog& watchdog_;
  };

 private:
  void begin(const net::Activity& doing);
  void end();
  void run();

  const Watch watch_;
  net::Activity doing_;            // of the call under way
  std::uint64_t calls_ = 0;        // so far; the calling thread's
  std::atomic<std::uint64_t> at_;  // the number of the call under way, or one of the values in watchdog.cc
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tutti::mpi
