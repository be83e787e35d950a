// Writes checkpoints beside the training: a step is held up for the copy of the model, never for a disk.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tutti::train {

// One thread calls it, and one of its own writes, one checkpoint after another.
class CheckpointWriter {
 public:
  // Writes a checkpoint and returns its folder, or throws. It owns what it writes. Should it wait for
  // anything but the disk it gives up when `stopped` turns true.
  using Write = std::function<std::filesystem::path(const std::atomic<bool>& stopped)>;

  struct Result {
    std::int64_t step = 0;
    std::filesystem::path path;  // empty if it was not written
    std::exception_ptr failure;  // none if a newer one took its place
  };

  // `while_waiting` is called now and then while a call below waits for the disk.
  explicit CheckpointWriter(std::function<void()> while_waiting = {});
  // Waits for the checkpoint that is being written; those behind it are dropped.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Hands over a checkpoint of `bytes` bytes. Where more than kMostBehind would wait for the disk, the newest
  // that waits gives way: a disk that is too slow for the rhythm of saving costs checkpoints, not memory or
  // time. One that is `needed` does not; the call then waits until fewer than two are behind.
  static constexpr std::size_t kMostBehind = std::size_t{256} << 20;
  void post(std::int64_t step, std::size_t bytes, Write write, bool needed = false);

  // What has ended since the last call. Never blocks.
  std::vector<Result> take_results();
  // Blocks until everything is written. Both throw RunError if the disk takes no more for kLongestWait.
  static constexpr auto kLongestWait = std::chrono::minutes(10);
  void finish();

 private:
  struct Job {
    std::int64_t step = 0;
    std::size_t bytes = 0;
    Write write;
    bool needed = false;
  };
  void work();
  template <typename Done>
  void wait(std::unique_lock<std::mutex>& lock, const Done& done);

  const std::function<void()> while_waiting_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Job> queue_;
  bool writing_ = false;
  std::vector<Result> results_;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace tutti::train
