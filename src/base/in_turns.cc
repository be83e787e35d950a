#include "base/in_turns.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tutti {
namespace {

// What ends the others' tasks when one has failed. Libraries in between may pass on std::exception alone.
struct Abandoned : std::exception {};

}  // namespace

InTurns::InTurns(std::size_t tasks, const Around& around) : ended_(tasks, true), turn_(tasks) {
  TUTTI_CHECK(tasks > 0, "no task");
  for (std::size_t i = 0; i < tasks; ++i) {
    threads_.emplace_back([this, i, around] { around([&] { work(i); }); });
  }
}

InTurns::~InTurns() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void InTurns::run(const std::function<void(std::size_t)>& task) {
  std::unique_lock lock(mutex_);
  task_ = &task;
  failure_ = nullptr;
  ended_.assign(ended_.size(), false);
  turn_ = 0;
  changed_.notify_all();
  changed_.wait(lock, [this] { return turn_ == ended_.size(); });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void InTurns::work(std::size_t index) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || (turn_ == index && !ended_[index]); });
    if (stop_) return;
    lock.unlock();
    one_task(index);
    lock.lock();
    ended_[index] = true;
    turn_ = next_after(index).value_or(ended_.size());
    changed_.notify_all();
  }
}

void InTurns::one_task(std::size_t index) {
  try {
    if (!failure_) (*task_)(index);
  } catch (...) {
    if (!failure_) failure_ = std::current_exception();
  }
}

// The next, around the circle, that has something left to do.
std::optional<std::size_t> InTurns::next_after(std::size_t index) const {
  for (std::size_t i = 1; i <= ended_.size(); ++i) {
    const std::size_t other = (index + i) % ended_.size();
    if (!ended_[other]) return other;
  }
  return std::nullopt;
}

void InTurns::meet(const std::function<void()>& together) {
  const std::size_t me = turn_;
  if (failure_) throw Abandoned();
  TUTTI_CHECK(std::ranges::count(ended_, true) == 0, "task {} waits for one that has ended", me);
  if (me + 1 == ended_.size()) together();
  std::unique_lock lock(mutex_);
  turn_ = (me + 1) % ended_.size();
  changed_.notify_all();
  changed_.wait(lock, [&] { return turn_ == me; });
  if (failure_) throw Abandoned();
}

}  // namespace tutti
