#include "train/checkpoint_writer.h"

#include <utility>

#include "base/deadline.h"
#include "base/error.h"
#include "base/process.h"

namespace tutti::train {
namespace {

constexpr auto kGlance = std::chrono::milliseconds(100);
// How long the thread that writes sleeps before it looks for work. Nobody wakes it for a checkpoint: where it
// shares its core with the training it would take that core at once, and hold up the step by more than a
// copy.
constexpr auto kNap = std::chrono::milliseconds(20);

}  // namespace

CheckpointWriter::CheckpointWriter(std::function<void()> while_waiting)
    : while_waiting_(std::move(while_waiting)) {
  thread_ = std::thread([this] { work(); });
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

template <typename Done>
void CheckpointWriter::wait(std::unique_lock<std::mutex>& lock, const Done& done) {
  const auto deadline = Deadline::in(kLongestWait);
  while (!changed_.wait_for(lock, kGlance, done)) {
    if (while_waiting_) while_waiting_();
    if (deadline.passed()) {
      throw RunError(fmt::format("the disk has taken no checkpoint for {:.0f} s",
                                 static_cast<double>(deadline.waited().count()) / 1000.0));
    }
  }
}

void CheckpointWriter::post(std::int64_t step, std::size_t bytes, Write write, bool needed) {
  std::unique_lock lock(mutex_);
  std::size_t behind = bytes;
  for (const Job& job : queue_) behind += job.bytes;
  if (behind > kMostBehind && !queue_.empty() && !queue_.back().needed) {
    results_.push_back({.step = queue_.back().step, .path = {}, .failure = nullptr});
    queue_.pop_back();
  }
  if (needed) wait(lock, [this] { return queue_.size() < 2; });
  queue_.push_back({step, bytes, std::move(write), needed});
}

std::vector<CheckpointWriter::Result> CheckpointWriter::take_results() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(results_, {});
}

void CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.notify_all();  // what waits need not wait for the end of a nap
  wait(lock, [this] { return queue_.empty() && !writing_; });
}

void CheckpointWriter::work() {
  name_thread("checkpoints");
  yield_to_others();  // a worker may have but one core, which its steps need first
  std::unique_lock lock(mutex_);
  while (true) {
    while (!stopped_ && queue_.empty()) changed_.wait_for(lock, kNap);
    if (stopped_) return;
    const Job job = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    lock.unlock();
    changed_.notify_all();
    Result result{.step = job.step, .path = {}, .failure = nullptr};
    try {
      result.path = job.write(stopped_);
    } catch (...) {
      result.failure = std::current_exception();
    }
    lock.lock();
    writing_ = false;
    results_.push_back(std::move(result));
    changed_.notify_all();
  }
}

}  // namespace tutti::train
