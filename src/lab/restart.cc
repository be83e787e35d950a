#include "lab/restart.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/process.h"

namespace tutti::lab {

namespace asio = boost::asio;
using boost::system::error_code;

bool may_end_better(const launch::Outcome& outcome) {
  return outcome.exit_code == 1 && outcome.interrupted_by == 0 && !outcome.would_fail_again;
}

std::chrono::seconds pause_before(int restart) {
  constexpr int kLongest = 30;
  return std::chrono::seconds(restart > 5 ? kLongest : std::min(kLongest, 1 << (restart - 1)));
}

int pause_unless_interrupted(std::chrono::seconds length) {
  asio::io_context io;
  asio::signal_set signals(io);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // What our caller told us to ignore (nohup, a shell's background job) stays ignored.
    struct sigaction current {};
    if (::sigaction(signal, nullptr, &current) == 0 && current.sa_handler != SIG_IGN) signals.add(signal);
  }
  asio::steady_timer timer(io, length);
  int came = 0;
  signals.async_wait([&](error_code e, int signal) {
    if (e) return;
    came = signal;
    timer.cancel();
  });
  timer.async_wait([&](error_code) { signals.cancel(); });
  io.run();
  return came;
}

launch::Outcome run_with_restarts(const Attempts& job) {
  for (int done = 0;; ++done) {
    auto outcome = job.run();
    if (!may_end_better(outcome) || done == job.restarts) {
      if (outcome.exit_code != 0 && done > 0) {
        outcome.line += fmt::format("; it had been started again {} time{}", done, done == 1 ? "" : "s");
      }
      return outcome;
    }
    const auto pause = pause_before(done + 1);
    const auto from = job.rewind(outcome);
    job.say(fmt::format("{}; starting again from {} in {} s (restart {} of {})", outcome.line, from,
                        pause.count(), done + 1, job.restarts));
    if (const int signal = job.pause(pause); signal != 0) {
      outcome.exit_code = 128 + signal;
      outcome.interrupted_by = signal;
      outcome.line = fmt::format("interrupted by {} before it was started again", signal_name(signal));
      return outcome;
    }
  }
}

}  // namespace tutti::lab
