// Signals to a process that others have started (launch/join.h): whoever did sends them to every process of
// the job, as SLURM does, or to some.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <mutex>
#include <optional>
#include <thread>

#include "base/rank.h"
#include "net/status_board.h"
#include "observe/jsonl_sink.h"

namespace tutti::launch {

// SIGINT, SIGTERM and SIGHUP ask the job to save and stop, in whichever process they arrive; SIGUSR1 in that
// of rank 0 asks it to save, so that one sent to all asks once. Heard from the constructor on, by a thread:
// one that comes before the job is there is passed on when it is. A second signal changes nothing: whoever
// started the processes can end them, and knows how long that may take. One a process.
class ProcessSignals {
 public:
  ProcessSignals();
  ~ProcessSignals();
  ProcessSignals(const ProcessSignals&) = delete;
  ProcessSignals& operator=(const ProcessSignals&) = delete;

  // What was asked and will be goes to this board, and the first is told in `report`.
  void pass_on_to(const net::StatusBoard& board, Rank self, observe::JsonlSink report);
  // Not any more: the board may go. The result is the first signal that was to stop the job, 0 if none came.
  int leave_board();

 private:
  void await();
  void hear(int signal);
  void ask_to_stop();

  struct Place {
    const net::StatusBoard& board;
    Rank self;
    observe::JsonlSink report;
  };

  std::mutex mutex_;
  std::optional<Place> place_;
  int stop_ = 0;
  bool save_ = false;  // asked before the job was there
  boost::asio::io_context io_;
  boost::asio::signal_set signals_{io_};
  std::thread thread_;
};

}  // namespace tutti::launch
