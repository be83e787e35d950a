#include "ps/requests.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/process.h"
#include "net/stall.h"

namespace tutti::ps {
namespace {

// How often a wait for an answer looks whether the job stands still.
constexpr auto kLookEvery = std::chrono::milliseconds(200);

// A server that is held up by another worker gives up after the time-out and names that worker. We wait a
// little longer, so that its word comes first and the run ends with the culprit's name, not with the
// server's.
constexpr auto kCourtesy = std::chrono::seconds(2);

}  // namespace

Requests::Requests(net::Transport& transport, std::vector<Rank> servers, Clock::duration timeout)
    : transport_(transport), servers_(std::move(servers)), timeout_(timeout) {
  sender_ = std::thread([this] { send_all(); });
  receiver_ = std::thread([this] { receive_all(); });
}

void Requests::attach(AnswerHandler& handler) {
  const std::scoped_lock lock(mutex_);
  handlers_.push_back(&handler);
}

void Requests::stop() {
  if (!sender_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    if (away_ > 0) transport_.cancel();
  }
  changed_.notify_all();
  sender_.join();
  receiver_.join();
}

void Requests::post(const Lock& /*held*/, std::function<void()> send) {
  if (away_++ == 0) busy_since_ = Clock::now();
  queue_.push_back(std::move(send));
}

void Requests::answered(const Lock& /*held*/) {
  if (--away_ == 0) busy_ += Clock::now() - busy_since_;
}

bool Requests::failed(const Lock& /*held*/) const {
  return failure_ != nullptr;
}

std::uint64_t Requests::next_sequence(const Lock& /*held*/) {
  return ++sequence_;
}

void Requests::count_bytes(const Lock& /*held*/, std::uint64_t bytes) {
  bytes_sent_ += bytes;
}

std::uint64_t Requests::bytes_sent() const {
  const std::scoped_lock lock(mutex_);
  return bytes_sent_;
}

void Requests::count_busy_time(const Lock& /*held*/, Clock::duration time) {
  if (away_ == 0) busy_ += time;
}

Clock::duration Requests::take_busy_time() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(busy_, {});
}

bool Requests::may_send() const {
  return std::ranges::all_of(handlers_, [](const AnswerHandler* h) { return h->may_send(); });
}

void Requests::send_all() {
  name_thread("push");
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || (!queue_.empty() && may_send()); });
    if (stop_) return;
    const auto send_next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    try {
      send_next();
    } catch (...) {
      return fail(std::current_exception());
    }
    changed_.notify_all();  // somebody may wait until it has left
    lock.lock();
  }
}

void Requests::receive_all() {
  name_thread("pull");
  const net::Activity doing{"waiting for updated parameters"};
  Lock lock(mutex_);
  while (true) {
    // Only while an answer is due: between, blocking calls (a pull, a goodbye) receive on their own thread,
    // and no two threads may receive from one server.
    changed_.wait(lock, [this] { return stop_ || away_ > 0; });
    if (stop_) return;
    lock.unlock();
    try {
      take_answer([this] { return awaited_server(); }, doing);
    } catch (...) {
      return fail(std::current_exception());
    }
    lock.lock();
  }
}

Rank Requests::take_answer(const std::function<Rank()>& awaited, const net::Activity& doing) {
  const Rank from = next_to_answer(awaited, doing);
  const Header answer = receive_header(transport_, from, doing);
  const auto handler = std::ranges::find_if(handlers_, [&](AnswerHandler* h) { return h->handles(answer); });
  if (handler == handlers_.end()) {
    throw ProtocolError(fmt::format(
        "rank {}: server {} answered verb {}, piece {}", to_int(transport_.in_job(transport_.rank())),
        to_int(transport_.in_job(from)), static_cast<std::uint32_t>(answer.verb), answer.piece));
  }
  if ((*handler)->on_answer(answer, from, doing)) changed_.notify_all();
  return from;
}

// Whichever begins first. A server answers one worker at a time: to wait for a certain one, while the answer
// of another fills our connection, would stop that one for everybody.
Rank Requests::next_to_answer(const std::function<Rank()>& awaited, const net::Activity& doing) {
  net::Stall stall(transport_.board(), timeout_ + kCourtesy);
  while (true) {
    if (const auto from = transport_.wait_for_any(servers_, kLookEvery, doing)) return *from;
    if (stall.over()) {
      throw Timeout({transport_.in_job(transport_.rank()), transport_.in_job(awaited()), doing.text(),
                     stall.standing_ms()});
    }
  }
}

// One that has not answered, as far as anybody knows: pushes of rows are counted together.
Rank Requests::awaited_server() const {
  const std::scoped_lock lock(mutex_);
  for (const AnswerHandler* h : handlers_) {
    if (const auto server = h->awaited()) return *server;
  }
  return servers_.front();
}

void Requests::fail(std::exception_ptr failure) {
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::move(failure);  // the other thread's, if there is one, follows from it
    stop_ = true;
  }
  changed_.notify_all();
}

}  // namespace tutti::ps
