// Requests of a worker that are under way to its servers, and the two threads that move them.
//
// One thread sends requests, in the order of post(). The other takes answers, from whichever server speaks
// first, and hands each to the client that it is for (ps/piece_client.h, ps/row_client.h). What either thread
// meets ends both, and the next wait() throws it: PeerLost, Timeout, ProtocolError.
//
// One lock guards everything that is under way: the counts here, and what clients note of their own requests.
// A function that needs it takes it as an argument.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "net/transport.h"
#include "ps/message.h"

namespace tutti::ps {

// A client that answers are for.
class AnswerHandler {
 public:
  virtual ~AnswerHandler() = default;

  virtual bool handles(const Header& answer) const = 0;
  // Takes the rest of the message and notes what it means. Called without the lock, by one thread at a time.
  // Whether another thread may have waited for it: then all are woken.
  virtual bool on_answer(const Header& answer, Rank from, const net::Activity& doing) = 0;

  // The lock is held in both. A server that owes this client an answer, if the client knows of one.
  virtual std::optional<Rank> awaited() const = 0;
  // Whether the next request may leave, whoever has posted it.
  virtual bool may_send() const = 0;
};

class Requests {
 public:
  using Lock = std::unique_lock<std::mutex>;

  // The transport outlives it. A wait for an answer ends with Timeout when the whole job has stood still for
  // a little longer than `timeout`.
  Requests(net::Transport& transport, std::vector<Rank> servers, Clock::duration timeout);
  ~Requests() { stop(); }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  // Before the handler's first request. It calls stop() before it goes.
  void attach(AnswerHandler& handler);
  // Ends the threads. If an answer is still due the transport is cancelled: nobody waits for it any more, and
  // a server may never give it.
  void stop();

  Lock lock() const { return Lock(mutex_); }

  // `send` is called on the sending thread, without the lock; it sends one request. After the last of several
  // posts, and without the lock, the caller wakes that thread by notify().
  void post(const Lock& held, std::function<void()> send);
  void notify() { changed_.notify_all(); }
  // A request has been answered. Each is, once.
  void answered(const Lock& held);
  // What is posted now would never leave; wait() says why.
  bool failed(const Lock& held) const;
  // Until `done()`, which is called with the lock held. Throws what the threads have met.
  template <typename Done>
  void wait(Lock& held, const Done& done) {
    changed_.wait(held, [&] { return stop_ || done(); });
    if (failure_) std::rethrow_exception(failure_);
  }

  // On the caller's thread, while nothing is under way: waits for a server that speaks, hands its answer to
  // its handler, and returns the server. `awaited` names one that is to blame if none does.
  Rank take_answer(const std::function<Rank()>& awaited, const net::Activity& doing);

  // Pushes are numbered, those of all clients together.
  std::uint64_t next_sequence(const Lock& held);
  void count_bytes(const Lock& held, std::uint64_t bytes);
  std::uint64_t bytes_sent() const;
  // Time that numbers took without a request; while one is under way its own time covers it.
  void count_busy_time(const Lock& held, Clock::duration time);
  // How long something was under way since it was last asked.
  Clock::duration take_busy_time();

 private:
  void send_all();
  void receive_all();
  bool may_send() const;
  Rank awaited_server() const;
  Rank next_to_answer(const std::function<Rank()>& awaited, const net::Activity& doing);
  void fail(std::exception_ptr failure);

  net::Transport& transport_;
  const std::vector<Rank> servers_;
  const Clock::duration timeout_;
  std::vector<AnswerHandler*> handlers_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<std::function<void()>> queue_;  // what to send
  std::size_t away_ = 0;                     // posted and not answered
  std::uint64_t sequence_ = 0;
  std::uint64_t bytes_sent_ = 0;
  Clock::time_point busy_since_;
  Clock::duration busy_{};
  bool stop_ = false;
  std::exception_ptr failure_;

  std::thread sender_;
  std::thread receiver_;
};

}  // namespace tutti::ps
