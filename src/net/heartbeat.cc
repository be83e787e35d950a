#include "net/heartbeat.h"

#include "base/process.h"

namespace tutti::net {

Heartbeat::Heartbeat(const StatusBoard& board, Rank self)
    : board_(board), self_(self), thread_([this](const std::stop_token& stop) { beat(stop); }) {
  board_.beat(self_);  // the thread may be late; from now on the process is one that shows life
}

Heartbeat::~Heartbeat() {
  thread_.request_stop();
  thread_.join();
  board_.sign_off(self_);
}

void Heartbeat::beat(const std::stop_token& stop) {
  name_thread("heartbeat");
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    board_.beat(self_);
    stopped_.wait_for(lock, stop, kBeat, [] { return false; });
  }
}

}  // namespace tutti::net
