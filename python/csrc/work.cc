#include "work.h"

#include <algorithm>

#include "base/error.h"
#include "base/process.h"

namespace tutti::torch_backend {
namespace {

// What is being handled, in words that programs for c10d look for.
std::exception_ptr current_failure() {
  try {
    throw;
  } catch (const Timeout& e) {
    return std::make_exception_ptr(
        RunError(fmt::format("{}: Timed out after {}ms", e.what(), e.fault.waited.count())));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

TuttiWork::TuttiWork(int rank, Subject subject)
    : Work(rank, subject.type, subject.title, subject.inputs),
      title_(subject.title),
      outputs_(std::move(subject.outputs)) {}

void TuttiWork::complete(std::exception_ptr failure, int source) {
  source_ = source;
  finish(failure);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(mutex_);
    through_ = true;
    future = future_;
  }
  if (!future) return;
  if (failure) {
    future->setError(failure);
  } else {
    future->markCompleted(c10::IValue(outputs_));
  }
}

c10::intrusive_ptr<c10::ivalue::Future> TuttiWork::getFuture() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  bool first = false;
  bool through = false;
  {
    const std::lock_guard lock(mutex_);
    first = !future_;
    if (first)
      future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future = future_;
    through = through_;
  }
  if (!through) hurry(false);
  // One of two marks it: complete() sees the future, or who asked first has seen that it was through before.
  if (first && through) {
    if (exception_) {
      future->setError(exception_);
    } else {
      future->markCompleted(c10::IValue(outputs_));
    }
  }
  return future;
}

bool TuttiWork::isCompleted() {
  get_going();
  return Work::isCompleted();
}

bool TuttiWork::wait(std::chrono::milliseconds timeout) {
  if (timeout == kNoTimeout) timeout = limit_;
  hurry(timeout == kNoTimeout);
  std::unique_lock lock(mutex_);
  const auto completed = [&] { return completed_; };
  if (timeout == kNoTimeout) {
    cv_.wait(lock, completed);
  } else if (!cv_.wait_for(lock, timeout, completed)) {
    lock.unlock();
    give_up();
    throw RunError(fmt::format("rank {}: Timed out waiting {}ms for {}", rank_, timeout.count(), title_));
  }
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

QueuedWork::QueuedWork(int rank, Subject subject, Job job, std::shared_ptr<WorkQueue> queue)
    : TuttiWork(rank, std::move(subject)), job_(std::move(job)), queue_(std::move(queue)) {}

void QueuedWork::hurry(bool here) {
  queue_->hurry(*this, here);
}

void QueuedWork::get_going() {
  queue_->get_going(*this);
}

// Tensors are written below autograd, as all of c10d does: a collective is no step of a graph.

void QueuedWork::begin() {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  job_.begin();
}

void QueuedWork::carry_out(const std::function<void()>& what) {
  std::exception_ptr failure = queue_->failed_before();
  if (!failure) {
    try {
      const at::AutoDispatchBelowADInplaceOrView no_autograd;  // not for callbacks
      what();
    } catch (...) {
      failure = current_failure();
      queue_->note_failure(failure);
    }
  }
  complete(failure);
  job_ = {};
}

void QueuedWork::do_all() {
  carry_out([this] {
    if (job_.run) return job_.run();
    job_.begin();
    job_.finish();
  });
}

void QueuedWork::do_rest() {
  carry_out([this] { job_.finish(); });
}

std::exception_ptr WorkQueue::failed_before() {
  const Lock lock(mutex_);
  if (!first_failure_) return nullptr;
  try {
    std::rethrow_exception(first_failure_);
  } catch (const std::exception& e) {
    return std::make_exception_ptr(RunError(fmt::format(
        "a collective of this process group has failed, so nothing more can be exchanged in it: {}",
        e.what())));
  }
}

void WorkQueue::note_failure(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const RunError&) {
    const Lock lock(mutex_);
    if (!first_failure_) first_failure_ = failure;
  } catch (...) {
    // Refused before anything was exchanged: ranks are where they were.
  }
}

void WorkQueue::submit(const c10::intrusive_ptr<QueuedWork>& work, bool caller_waits) {
  Lock lock(mutex_);
  if (closed_) {
    lock.unlock();
    return work->complete(std::make_exception_ptr(RunError("the process group was destroyed")));
  }
  if (in_callback()) {
    lock.unlock();
    return work->do_all();
  }
  const bool first = !busy() && !begun_ && queue_.empty();
  if (first && caller_waits) return do_here(lock, *work, &QueuedWork::do_all);
  if (first && work->job_.begin && !first_failure_) {
    try {
      work->begin();
      begun_ = work;
      return;
    } catch (...) {
      lock.unlock();
      return work->complete(current_failure());
    }
  }
  hand_over_begun();
  queue_.push_back(work);
  wake();
}

// With the lock held.
void WorkQueue::hand_over_begun() {
  if (!begun_) return;
  queue_.push_front(std::move(begun_));
  begun_.reset();
  first_has_begun_ = true;
  wake();
}

void WorkQueue::wake() {
  if (!thread_.joinable()) thread_ = std::thread([self = shared_from_this()] { self->do_queued(); });
  changed_.notify_all();
}

// This thread does works as long as it lives, without the lock.
class WorkQueue::Doing {
 public:
  Doing(WorkQueue& queue, Lock& lock)
      : queue_(queue), lock_(lock), before_(std::exchange(queue.doer_, std::this_thread::get_id())) {
    lock_.unlock();
  }
  ~Doing() {
    lock_.lock();
    queue_.doer_ = before_;  // this thread, too, where it is in a callback
    if (!queue_.queue_.empty() || queue_.closed_) queue_.changed_.notify_all();
  }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

 private:
  WorkQueue& queue_;
  Lock& lock_;
  const std::thread::id before_;
};

void WorkQueue::do_here(Lock& lock, QueuedWork& work, void (QueuedWork::*what)()) {
  const Doing doing(*this, lock);
  (work.*what)();
}

void WorkQueue::do_first(Lock& lock) {
  auto work = std::move(queue_.front());
  queue_.pop_front();
  const bool begun = std::exchange(first_has_begun_, false);
  do_here(lock, *work, begun ? &QueuedWork::do_rest : &QueuedWork::do_all);
  lock.unlock();
  work.reset();  // its destructor may need the interpreter's lock, whose owner may want ours
  lock.lock();
}

void WorkQueue::hurry(QueuedWork& work, bool here) {
  Lock lock(mutex_);
  if (in_callback()) {
    while (std::ranges::any_of(queue_, [&](const auto& queued) { return queued.get() == &work; })) {
      do_first(lock);
    }
    return;
  }
  if (begun_.get() != &work) return;
  if (!here) return hand_over_begun();
  const auto mine = std::move(begun_);
  begun_.reset();
  do_here(lock, work, &QueuedWork::do_rest);
}

void WorkQueue::get_going(const QueuedWork& work) {
  const Lock lock(mutex_);
  if (begun_.get() == &work) hand_over_begun();
}

void WorkQueue::do_queued() {
  name_thread("tutti works");
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closed_ || (!queue_.empty() && !busy()); });
    if (closed_) return;
    do_first(lock);
  }
}

void WorkQueue::close(const std::function<void()>& cancel) {
  std::deque<c10::intrusive_ptr<QueuedWork>> left;
  {
    Lock lock(mutex_);
    if (closed_) return;
    closed_ = true;
    left.swap(queue_);
    if (begun_) left.push_back(std::move(begun_));
    begun_.reset();
  }
  changed_.notify_all();
  cancel();
  // join() could not come before it: a callback that runs may wait for one of them.
  for (const auto& work : left) {
    work->complete(std::make_exception_ptr(RunError("the process group was destroyed")));
  }
}

void WorkQueue::join() {
  std::thread thread;
  {
    const Lock lock(mutex_);
    if (in_callback()) return;
    thread.swap(thread_);
  }
  if (thread.joinable()) thread.join();
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy(); });
}

WorkQueue::~WorkQueue() {
  if (thread_.joinable()) thread_.detach();  // let go of in a callback: it ends by itself, or this is it
}

}  // namespace tutti::torch_backend
