// Handles of what a process group was asked to do, and the queue that does it in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "c10d_types.h"

namespace tutti::torch_backend {

// What a handle is about, for profilers and for whoever asks it for its result.
struct Subject {
  c10d::OpType type;
  const char* title;  // "tutti:all_reduce"
  Tensors inputs;
  Tensors outputs;
};

// A handle that somebody completes. Thread-safe.
class TuttiWork : public c10d::Work {
 public:
  TuttiWork(int rank, Subject subject);

  Tensors result() override { return outputs_; }
  int sourceRank() const override { return source_; }
  // In a callback this does the work first (WorkQueue), which Python lets happen with its lock held.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  // Waits for it, at most `timeout` unless that is kNoTimeout. Throws what it failed with, or RunError
  // ("Timed out").
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  // Does not block.
  bool isCompleted() override;

  // Once. Callbacks of its future run on this thread.
  void complete(std::exception_ptr failure, int source = -1);

  // A time limit where the caller of wait() names none.
  void limit(std::chrono::milliseconds most) { limit_ = most; }

 protected:
  // Somebody wants it done: by the calling thread itself if `here`.
  virtual void hurry(bool /*here*/) {}
  // Somebody looks whether it is done. Does not block.
  virtual void get_going() {}
  // It was waited for in vain.
  virtual void give_up() {}

 private:
  const char* title_;
  Tensors outputs_;
  int source_ = -1;
  std::chrono::milliseconds limit_ = kNoTimeout;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool through_ = false;  // complete() has looked for a future; under mutex_
};

// A send or a receive.
class MessageWork final : public TuttiWork {
 public:
  using TuttiWork::TuttiWork;
  // How a receive is taken back. Set before anybody waits.
  void on_give_up(std::function<void()> take_back) { take_back_ = std::move(take_back); }

 private:
  void give_up() override {
    if (take_back_) take_back_();
  }
  std::function<void()> take_back_;
};

// How a collective is done: all at once, which blocks; or in two halves of which the first does not.
// Never both: which of them a rank would use depends on what is queued there, and ranks would not meet.
struct Job {
  std::function<void()> run = {};
  std::function<void()> begin = {};
  std::function<void()> finish = {};
};

class WorkQueue;

class QueuedWork final : public TuttiWork {
 public:
  QueuedWork(int rank, Subject subject, Job job, std::shared_ptr<WorkQueue> queue);

 private:
  friend WorkQueue;
  void hurry(bool here) override;
  void get_going() override;
  void begin();
  void do_all();
  void do_rest();
  void carry_out(const std::function<void()>& what);

  Job job_;
  const std::shared_ptr<WorkQueue> queue_;
};

// Does works one after the other, in the order in which they were submitted. A thread of its own does them,
// which starts when it is first needed, except where another thread would only cost time:
//   - a work whose caller waits for it at once is done by the caller, if nothing is before it;
//   - of a work in two halves the first is done by the caller, if nothing is before it, and the second by who
//   waits.
//     If nobody does, the thread takes it when the next work comes.
//
// A callback of a work's future runs where the work was done, and holds up the next. What it asks of the
// queue is done within it, before what was submitted earlier: so all ranks do a callback's collectives at the
// same place, although on some the work was through, and the callback ran at once, before that was submitted.
// Such a callback must be attached before the next work of the group is submitted, and use its own group, on
// its own thread. Otherwise ranks may do things in different orders, as with every backend of c10d.
//
// A callback that waits for a handle from elsewhere, or asks it for its future, does what is queued up to it,
// however short its wait was to be. Polling does nothing of the kind. For a future from elsewhere, which
// cannot tell us that it is waited for, a callback would wait in vain.
// Callbacks nest: a chain of some hundreds, each submitted from within the last, is not for this backend.
//
// A work that fails with RunError (a rank is lost, late, or does something else) leaves ranks at different
// places of an exchange: what others have laid down would be taken for what it is not. So every later work
// fails at once, with the first failure's text.
// Thread-safe.
class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  WorkQueue() = default;
  // Closed before, unless nothing was ever submitted. Its own thread may be the last that knows it.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void submit(const c10::intrusive_ptr<QueuedWork>& work, bool caller_waits);

  // Ends what runs by `cancel`, and fails what has not begun. Nothing is begun any more after it.
  void close(const std::function<void()>& cancel);
  // After close(): waits for what runs, and its callbacks. Returns at once if it is one of them that calls.
  void join();

 private:
  friend QueuedWork;
  using Lock = std::unique_lock<std::mutex>;
  class Doing;
  void hurry(QueuedWork& work, bool here);
  void get_going(const QueuedWork& work);
  void do_here(Lock& lock, QueuedWork& work, void (QueuedWork::*what)());
  void do_first(Lock& lock);
  bool busy() const { return doer_ != std::thread::id(); }
  bool in_callback() const { return doer_ == std::this_thread::get_id(); }
  void hand_over_begun();
  void wake();
  void do_queued();
  std::exception_ptr failed_before();
  void note_failure(const std::exception_ptr& failure);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::thread::id doer_;                  // who does a work, or its callbacks
  c10::intrusive_ptr<QueuedWork> begun_;  // whose first half is done, and nothing is behind it
  std::deque<c10::intrusive_ptr<QueuedWork>> queue_;
  bool first_has_begun_ = false;  // the queue's first
  std::exception_ptr first_failure_;
  std::thread thread_;
};

}  // namespace tutti::torch_backend
