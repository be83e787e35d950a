// What a server still has to send, and the thread that sends it: a slow reader holds up nobody else's update.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

namespace tutti::ps {

class Outbox {
 public:
  // `send` are called one at a time, on the outbox's thread or in send_now.
  Outbox();
  ~Outbox();  // drops what has not left; whoever may block in a send must have been cancelled
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // The most urgent leaves first; among equals, the first.
  void post(std::uint32_t urgency, std::function<void()> send);
  void send_now(const std::function<void()>& send);

  // Throws what a posted send has thrown.
  void check() const;
  // Until everything has left.
  void drain();

 private:
  struct Message {
    std::uint32_t urgency = 0;
    std::uint64_t number = 0;
    std::function<void()> send;
    bool operator<(const Message& other) const {
      return urgency != other.urgency ? urgency < other.urgency : number > other.number;
    }
  };
  void work();
  void join(bool drop);

  std::mutex sending_;  // one message at a time leaves
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::priority_queue<Message> messages_;
  std::uint64_t posted_ = 0;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace tutti::ps
