#include "train/checkpoint_writer.h"

#include "base/process.h"

namespace tutti::train {

CheckpointWriter::CheckpointWriter() {
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

void CheckpointWriter::post(std::int64_t step, Write write, bool needed) {
  {
    std::unique_lock lock(mutex_);
    if (!queue_.empty() && !queue_.back().needed) queue_.pop_back();
    if (needed) changed_.wait(lock, [this] { return queue_.size() < 2; });
    queue_.push_back({step, std::move(write), needed});
  }
  changed_.notify_all();
}

std::vector<CheckpointWriter::Result> CheckpointWriter::take_results() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(results_, {});
}

void CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !writing_; });
}

void CheckpointWriter::work() {
  name_thread("checkpoints");
  yield_to_others();  // a worker may have but one core, which its steps need first
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
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
