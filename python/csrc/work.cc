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
  bool through = false;
  {
    const std::lock_guard lock(mutex_);
    if (future_) return future_;
    future = future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    through = through_;
  }
  // complete() sees the future, or we have seen that it was through before: one of the two marks it.
  if (!through) {
    hurry(false);
  } else if (exception_) {
    future->setError(exception_);
  } else {
    future->markCompleted(c10::IValue(outputs_));
  }
  return future;
}

bool TuttiWork::isCompleted() {
  hurry(false);
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

// Tensors are written below autograd, as all of c10d does: a collective is no step of a graph.

void QueuedWork::begin() {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  job_.begin();
}

void QueuedWork::carry_out(const std::function<void()>& what) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::exception_ptr failure = queue_->failed_before();
  if (!failure) {
    try {
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
  const bool first = !busy_ && !begun_ && queue_.empty();
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
  if (!thread_.joinable()) thread_ = std::thread([this] { do_queued(); });
  changed_.notify_all();
}

void WorkQueue::do_here(Lock& lock, QueuedWork& work, void (QueuedWork::*what)()) {
  const bool inside = in_callback();
  busy_ = true;
  doer_ = std::this_thread::get_id();
  lock.unlock();
  (work.*what)();
  lock.lock();
  if (inside) return;
  busy_ = false;
  doer_ = {};
  if (!queue_.empty() || closed_) changed_.notify_all();
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

void WorkQueue::do_queued() {
  name_thread("tutti works");
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closed_ || (!queue_.empty() && !busy_); });
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
  // Before the thread is waited for: a callback in it may wait for one of them.
  for (const auto& work : left) {
    work->complete(std::make_exception_ptr(RunError("the process group was destroyed")));
  }
  if (thread_.joinable()) thread_.join();
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
}

}  // namespace tutti::torch_backend
