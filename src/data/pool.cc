#include "data/pool.h"

#include <utility>

#include "base/process.h"

namespace tutti::data {

Pool::Pool(std::size_t threads, const std::string& name) {
  for (std::size_t t = 1; t < threads; ++t) {
    threads_.emplace_back([this, name] {
      name_thread(name);
      std::unique_lock lock(mutex_);
      while (!stop_) {
        take_parts(lock);
        changed_.wait(lock, [this] { return stop_ || next_ < end_; });
      }
    });
  }
}

Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Pool::for_each(std::size_t count, const std::function<void(std::size_t)>& part) {
  const std::lock_guard turn(turn_);
  std::unique_lock lock(mutex_);
  part_ = &part;
  next_ = 0;
  end_ = count;
  changed_.notify_all();
  take_parts(lock);
  changed_.wait(lock, [this] { return busy_ == 0; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Pool::take_parts(std::unique_lock<std::mutex>& lock) {
  while (next_ < end_) {
    const std::size_t i = next_++;
    const auto& part = *part_;
    ++busy_;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      part(i);
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    --busy_;
    // Parts begin in their order, so all before this one have begun: the smallest that fails is known in the
    // end.
    if (thrown && (!failure_ || i < failed_)) {
      failure_ = thrown;
      failed_ = i;
    }
    if (thrown) end_ = 0;
  }
  if (busy_ == 0) changed_.notify_all();
}

}  // namespace tutti::data
