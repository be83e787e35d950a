// Several tasks, each on a thread of its own, of which one runs at a time: where a task needs what all of
// them have, it waits, and the next one goes on.
//
//     task 0   ──── meet ·············· ──── end
//     task 1        ──── meet ·········      ──── end
//     task 2             ──── meet ····           ──── end
//                             all have come: the last one's `together` runs, and task 0 goes on
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace tutti {

// One thread calls run(); its tasks call the rest.
class InTurns {
 public:
  // What a thread does before and after its work, which it calls in between.
  using Around = std::function<void(const std::function<void()>& work)>;

  // At least one task.
  explicit InTurns(
      std::size_t tasks, const Around& around = [](const std::function<void()>& work) { work(); });
  ~InTurns();
  InTurns(const InTurns&) = delete;
  InTurns& operator=(const InTurns&) = delete;

  // Calls task(i) for each of them and returns when all have ended. They meet equally often. When one throws,
  // the others end at their next meeting, and the exception comes out here.
  void run(const std::function<void(std::size_t)>& task);

  // Inside a task: returns when all have come and the last of them has called its `together`.
  void meet(const std::function<void()>& together);

  // The task that runs now.
  std::size_t current() const { return turn_; }

 private:
  void work(std::size_t index);
  void one_task(std::size_t index);
  std::optional<std::size_t> next_after(std::size_t index) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(std::size_t)>* task_ = nullptr;
  std::vector<bool> ended_;  // by task
  std::size_t turn_;         // as many as there are: nobody's
  std::exception_ptr failure_;
  bool stop_ = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace tutti
