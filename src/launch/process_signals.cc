#include "launch/process_signals.h"

#include <signal.h>

#include "base/process.h"
#include "launch/interruption.h"
#include "observe/event.h"

namespace tutti::launch {

ProcessSignals::ProcessSignals() {
  add_stop_signals(signals_);
  signals_.add(SIGUSR1);
  await();
  thread_ = std::thread([this] {
    name_thread("signals");
    io_.run();
  });
}

ProcessSignals::~ProcessSignals() {
  io_.stop();
  thread_.join();
  signals_.clear();
  ::signal(SIGUSR1, SIG_IGN);  // the end of a signal set brings back the default, which would end us
}

void ProcessSignals::await() {
  signals_.async_wait([this](boost::system::error_code e, int signal) {
    if (e) return;
    hear(signal);
    await();
  });
}

void ProcessSignals::hear(int signal) {
  const std::lock_guard lock(mutex_);
  if (signal == SIGUSR1) {
    save_ = !place_;
    if (place_ && place_->self == Rank{0}) place_->board.requests().ask(net::Request::save);
  } else if (stop_ == 0) {
    stop_ = signal;
    if (place_) ask_to_stop();
  }
}

void ProcessSignals::ask_to_stop() {
  place_->board.requests().ask(net::Request::stop);
  if (place_->report.has_room())
    place_->report.emit(
        observe::Note{fmt::format("{}: saves after the next steps and ends", signal_name(stop_))});
}

void ProcessSignals::pass_on_to(const net::StatusBoard& board, Rank self, observe::JsonlSink report) {
  const std::lock_guard lock(mutex_);
  place_.emplace(Place{board, self, std::move(report)});
  if (stop_ != 0) ask_to_stop();
  if (save_ && self == Rank{0}) board.requests().ask(net::Request::save);
  save_ = false;
}

int ProcessSignals::leave_board() {
  const std::lock_guard lock(mutex_);
  place_.reset();
  return stop_;
}

}  // namespace tutti::launch
