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

Ruling Ledger::on_push(const Push& push) {
  Worker& w = workers_.at(static_cast<std::size_t>(push.worker));
  Ruling ruling;
  if (push.incarnation < w.incarnation ||
      (push.incarnation == w.incarnation && push.sequence <= w.sequence)) {
    ruling.repeated = true;
    return ruling;
  }
  if (push.version > version_ || push.version < 0) {
    throw ProtocolError(fmt::format("worker {} pushed a gradient of version {}, the newest is {}",
                                    push.worker, push.version, version_));
  }
  w.incarnation = push.incarnation;
  w.sequence = push.sequence;
  w.waiting = true;
  ruling.staleness = version_ - push.version;
  if (policy_.consistency != Consistency::sync) {
    ++w.pushes;
    ++version_;
    ruling.gradient = Ruling::Gradient::keep;
    ruling.update_from = {push.worker};
    answer_eligible(ruling);
  } else if (push.version < version_ || closed_) {  // its version was made without it, or none will be
    w.waiting = false;
    ruling.answers.push_back({push.worker, 0});
  } else {
    ruling.gradient = Ruling::Gradient::keep;
    w.contributes = true;
    close_round(ruling);
  }
  return ruling;
}

// Nobody waits for it any more, and what it has given counts no more.
void Ledger::forget(int worker) {
  Worker& w = workers_.at(static_cast<std::size_t>(worker));
  w.gone = true;
  w.waiting = false;
  w.contributes = false;
}

Ruling Ledger::on_leave(int worker) {
  Ruling ruling;
  forget(worker);
  if (policy_.consistency == Consistency::sync) {
    closed_ = true;
    for (Worker& other : workers_) other.contributes = false;
  }
  answer_eligible(ruling);
  return ruling;
}

Ruling Ledger::on_drop(int worker) {
  Ruling ruling;
  forget(worker);
  if (policy_.consistency == Consistency::sync) {
    close_round(ruling);
  } else {
    answer_eligible(ruling);
  }
  return ruling;
}

std::int64_t Ledger::gradients_a_version() const {
  return std::min<std::int64_t>(policy_.workers - policy_.backup,
                                std::ranges::count(workers_, false, &Worker::gone));
}

// Makes the next version if enough gradients of this one are there.
void Ledger::close_round(Ruling& ruling) {
  const auto there = std::ranges::count(workers_, true, &Worker::contributes);
  if (there == 0 || there < gradients_a_version()) return;
  ++version_;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (!std::exchange(workers_[i].contributes, false)) continue;
    ruling.update_from.push_back(static_cast<int>(i));
    workers_[i].waiting = false;
    ruling.answers.push_back({static_cast<int>(i), 0});
  }
}

std::int64_t Ledger::slowest() const {
  auto least = std::numeric_limits<std::int64_t>::max();
  for (const Worker& w : workers_) {
    if (!w.gone) least = std::min(least, w.pushes);
  }
  return least;
}

void Ledger::answer_eligible(Ruling& ruling) {
  const std::int64_t base = slowest();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& w = workers_[i];
    if (!w.waiting) continue;
    const std::int64_t lead = w.pushes - base;
    if (policy_.consistency == Consistency::ssp && lead > policy_.staleness) continue;
    w.waiting = false;
    ruling.answers.push_back({static_cast<int>(i), lead});
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
