// Messages with tags between the ranks of a group: what isend and irecv stand on.
//
// A transport brings messages in order, and both ends must know what comes next. Here a receive finds its
// message by sender and tag, whichever of the two comes first:
//
//   sender                            receiver
//   data {tag, length}, bytes    ->   a small message is kept until somebody asks for it
//   offer {tag, length, number}  ->   of a large one only the offer is kept
//                                <-   request {number}, once a receive asks for it (refusal, if of another
//                                length)
//   payload {number}, bytes      ->   straight into the receiver's memory
//
// Messages of one sender and tag arrive in the order in which they were sent.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "net/transport.h"

namespace tutti::torch_backend {

// Thread-safe. Two threads of its own move the messages; they start with the first call.
class Mailbox {
 public:
  // What became of a message: where it came from, or why it did not.
  struct Delivery {
    std::exception_ptr failure;
    Rank peer{};
  };
  // Called once, on any thread, without a lock held. Whatever the memory of the message belongs to is best
  // captured here: the memory is used until then.
  using Done = std::function<void(const Delivery&)>;

  // The transport survives the loss of peers (net::TransportOptions); who is lost fails his messages alone.
  explicit Mailbox(std::unique_ptr<net::Transport> transport);
  ~Mailbox();  // closes it
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Neither blocks.
  void send(Rank to, std::uint64_t tag, std::span<const std::byte> bytes, Done done);
  // From any rank where `from` is none. The number is for withdraw().
  std::uint64_t receive(std::optional<Rank> from, std::uint64_t tag, std::span<std::byte> into, Done done);

  // Takes a receive back for which no message has come yet; `done` is not called then. Whether it did.
  bool withdraw(std::uint64_t number);

  // Fails what is not done. Nothing is sent or received after it.
  void cancel();
  // Cancels, and waits for the threads.
  void close();

 private:
  struct Header;
  struct Letter;   // on its way out
  struct Posted;   // a receive
  struct Arrived;  // what nobody has asked for yet
  using Calls = std::vector<std::function<void()>>;

  void start();
  void send_all();
  void receive_all();
  void take(Rank from);
  void take_data(Rank from, const Header& header);
  void take_payload(Rank from, const Header& header);
  void take_offer(Rank from, const Header& header);
  void answer_offer(Posted posted, Rank from, const Header& offer, Calls& calls);
  void release_offered(Rank from, const Header& header);
  std::optional<Posted> take_posted(Rank from, std::uint64_t tag);
  void lose(const std::vector<Rank>& peers, const std::exception_ptr& failure);
  void fail_everything(const std::exception_ptr& failure);
  void deliver(Posted posted, Rank from, std::span<const std::byte> bytes);

  const std::unique_ptr<net::Transport> transport_;
  std::mutex mutex_;
  std::condition_variable to_send_;
  bool stopping_ = false;
  std::uint64_t next_number_ = 1;
  std::list<Letter> outbox_;
  std::map<std::uint64_t, Letter> offered_;
  std::list<Posted> posted_;
  std::list<Arrived> arrived_;
  std::map<std::pair<Rank, std::uint64_t>, Posted> requested_;  // by sender and its number
  std::map<Rank, std::exception_ptr> lost_;
  std::thread sender_;
  std::thread receiver_;
};

}  // namespace tutti::torch_backend
