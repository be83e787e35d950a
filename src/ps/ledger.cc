#include "ps/ledger.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace tutti::ps {

Ledger::Ledger(const Policy& policy, std::int64_t version)
    : policy_(policy), version_(version), workers_(static_cast<std::size_t>(policy.workers)) {
  TUTTI_CHECK(policy.workers >= 1 && policy.backup >= 0 && policy.backup < policy.workers &&
              policy.staleness >= 0);
}

Decision Ledger::on_push(const Push& push) {
  Worker& w = workers_.at(static_cast<std::size_t>(push.worker));
  Decision decision;
  if (push.incarnation < w.incarnation ||
      (push.incarnation == w.incarnation && push.sequence <= w.sequence)) {
    decision.repeated = true;
    return decision;
  }
  if (push.version > version_ || push.version < 0) {
    throw ProtocolError(fmt::format("worker {} pushed a gradient of version {}, the newest is {}",
                                    push.worker, push.version, version_));
  }
  w.incarnation = push.incarnation;
  w.sequence = push.sequence;
  w.waiting = true;
  decision.staleness = version_ - push.version;
  if (policy_.consistency != Consistency::sync) {
    ++w.pushes;
    ++version_;
    decision.gradient = Decision::Gradient::keep;
    decision.update_from = {push.worker};
    answer_eligible(decision);
  } else if (push.version < version_ || closed_) {  // its version was made without it, or none will be
    w.waiting = false;
    decision.answers.push_back({push.worker, 0});
  } else {
    decision.gradient = Decision::Gradient::keep;
    w.contributes = true;
    close_round(decision);
  }
  return decision;
}

// Nobody waits for it any more, and what it has given counts no more.
void Ledger::forget(int worker) {
  Worker& w = workers_.at(static_cast<std::size_t>(worker));
  w.gone = true;
  w.waiting = false;
  w.contributes = false;
}

Decision Ledger::on_leave(int worker) {
  Decision decision;
  forget(worker);
  if (policy_.consistency == Consistency::sync) {
    // No version follows. What others have given to the next one must not become one after all when a worker
    // is dropped later, and who waits for it is answered below.
    closed_ = true;
    for (Worker& other : workers_) other.contributes = false;
  }
  answer_eligible(decision);
  return decision;
}

Decision Ledger::on_drop(int worker) {
  Decision decision;
  forget(worker);
  if (policy_.consistency == Consistency::sync) {
    close_round(decision);
  } else {
    answer_eligible(decision);
  }
  return decision;
}

std::int64_t Ledger::gradients_a_version() const {
  return std::min<std::int64_t>(policy_.workers - policy_.backup,
                                std::ranges::count(workers_, false, &Worker::gone));
}

// Makes the next version if enough gradients of this one are there.
void Ledger::close_round(Decision& decision) {
  const auto there = std::ranges::count(workers_, true, &Worker::contributes);
  if (there == 0 || there < gradients_a_version()) return;
  ++version_;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!std::exchange(workers_[i].contributes, false)) continue;
    decision.update_from.push_back(static_cast<int>(i));
    workers_[i].waiting = false;
    decision.answers.push_back({static_cast<int>(i), 0});
  }
}

std::int64_t Ledger::slowest() const {
  auto least = std::numeric_limits<std::int64_t>::max();
  for (const Worker& w : workers_) {
    if (!w.gone) least = std::min(least, w.pushes);
  }
  return least;
}

void Ledger::answer_eligible(Decision& decision) {
  const std::int64_t base = slowest();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& w = workers_[i];
    if (!w.waiting) continue;
    const std::int64_t lead = w.pushes - base;
    if (policy_.consistency == Consistency::ssp && lead > policy_.staleness) continue;
    w.waiting = false;
    decision.answers.push_back({static_cast<int>(i), lead});
  }
}

int Ledger::awaited() const {
  if (std::ranges::none_of(workers_, &Worker::waiting)) return -1;
  std::size_t slow = workers_.size();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& w = workers_[i];
    if (w.gone || w.waiting) continue;
    if (slow == workers_.size() || w.pushes < workers_[slow].pushes) slow = i;
  }
  return slow == workers_.size() ? -1 : static_cast<int>(slow);
}

}  // namespace tutti::ps
