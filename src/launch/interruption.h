// What signals to a launcher mean to its job.
#pragma once

#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>

#include "base/process.h"
#include "launch/launcher.h"
#include "net/status_board.h"
#include "observe/event.h"

namespace tutti::launch {

// Those that are to stop a job. What our caller told us to ignore (nohup, a shell's background job) stays
// ignored.
inline void add_stop_signals(boost::asio::signal_set& signals) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction current {};
    if (::sigaction(signal, nullptr, &current) == 0 && current.sa_handler != SIG_IGN) signals.add(signal);
  }
}

// SIGINT, SIGTERM and SIGHUP stop the job: at once, or, where it saves when asked, after its workers have
// saved and ended, for which they have ten seconds; a second signal stops them at once. SIGUSR1 then asks for
// a checkpoint. Runs on the thread that runs `io`. `ask` says whether there is anybody to ask yet; if not, a
// job stops at once.
class Interruption {
 public:
  Interruption(boost::asio::io_context& io, bool saves_when_asked, const Listener& listener,
               std::function<bool(net::Request)> ask, std::function<void()> stop_all)
      : saves_when_asked_(saves_when_asked),
        listener_(listener),
        ask_(std::move(ask)),
        stop_all_(std::move(stop_all)),
        signals_(io),
        time_to_stop_(io) {
    add_stop_signals(signals_);
    if (saves_when_asked_) signals_.add(SIGUSR1);
    await();
  }

  // No signal is heard any more.
  void end() {
    signals_.cancel();
    time_to_stop_.cancel();
  }

  // The last signal that was to stop the job, 0 if none came.
  int signal() const { return signal_; }

 private:
  static constexpr auto kTimeToStop = std::chrono::seconds(10);

  void await() {
    signals_.async_wait([this](boost::system::error_code e, int signal) {
      if (e) return;
      on_signal(signal);
      await();
    });
  }

  void on_signal(int signal) {
    if (signal == SIGUSR1) {
      ask_(net::Request::save);
      return;
    }
    const bool first = signal_ == 0;
    signal_ = signal;
    if (!first || !saves_when_asked_ || !ask_(net::Request::stop)) return stop_all_();
    // As one of the job's own events.
    const observe::Note note{fmt::format(
        "{}: saves after the next step and ends; a second one ends it at once", signal_name(signal))};
    listener_.on_report(Rank{0}, to_json(observe::Event(note)));
    time_to_stop_.expires_after(kTimeToStop);
    time_to_stop_.async_wait([this](boost::system::error_code e) {
      if (!e) stop_all_();
    });
  }

  const bool saves_when_asked_;
  const Listener& listener_;
  const std::function<bool(net::Request)> ask_;
  const std::function<void()> stop_all_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer time_to_stop_;
  int signal_ = 0;
};

// How a job has ended, from how its ranks have. `stopped`: not all ended by themselves.
Outcome outcome_of(const std::vector<RankEnd>& ends, int interrupted_by, bool stopped, int processes);

}  // namespace tutti::launch
