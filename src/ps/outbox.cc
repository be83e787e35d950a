#include "ps/outbox.h"

#include "base/process.h"

namespace tutti::ps {

Outbox::Outbox() {
  thread_ = std::thread([this] { work(); });
}

Outbox::~Outbox() {
  join(true);
}

void Outbox::post(std::uint32_t urgency, std::function<void()> send) {
  {
    const std::scoped_lock lock(mutex_);
    messages_.push({urgency, posted_++, std::move(send)});
  }
  changed_.notify_one();
}

// A message may be a header and a payload: nothing comes between the two.
void Outbox::send_now(const std::function<void()>& send) {
  const std::scoped_lock one_sender(sending_);
  send();
}

void Outbox::check() const {
  const std::scoped_lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void Outbox::drain() {
  join(false);
  check();
}

void Outbox::join(bool drop) {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    if (drop) messages_ = {};
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Outbox::work() {
  name_thread("replies");
  try {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !messages_.empty(); });
      if (messages_.empty()) return;
      const auto send = messages_.top().send;  // a copy: a priority queue only shows its top
      messages_.pop();
      lock.unlock();
      send_now(send);
    }
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    failure_ = std::current_exception();  // for check(); nothing leaves any more
  }
}

}  // namespace tutti::ps
