// Collectives among all ranks of a job.
//
//   Communicator all(transport);
//   auto gradients = all.allocate(bytes);                 // in shared memory where ranks share a host
//   all.all_reduce({gradients.data(), count, DType::f32}, ReduceOp::average, "bucket 0, step 17");
//
// Every rank calls the same operations in the same order with the same counts and types. By messages a length
// that differs is a ProtocolError; in shared memory any difference is one, on every rank, before a byte is
// read. (A buffer that lies in shared memory on one rank and outside on another ends with Timeout.) One
// communicator a transport. One thread at a time. Every call blocks, and ends with PeerLost or Timeout when a
// peer fails.
//
// A buffer from allocate() is reduced in place where ranks share memory: loads, adds and stores on each
// other's buffers, with no copy between. Any other buffer travels as messages. Results do not depend on
// timing: the same world, transport, algorithm and input give the same bits, on every rank.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "collectives/choose.h"
#include "collectives/reduce.h"
#include "collectives/schedule.h"
#include "net/transport.h"

namespace tutti::collectives {

struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DType type = DType::f32;
  std::size_t bytes() const { return count * size_of(type); }
};

class Communicator {
 public:
  // Without an algorithm each call takes what choose() says. The transport outlives the communicator.
  explicit Communicator(net::Transport& transport, std::optional<Algorithm> algorithm = std::nullopt);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Rank rank() const { return transport_.rank(); }
  int world() const { return transport_.world(); }

  // Zeroed memory for buffers, aligned for vectors, owned by the communicator. A collective call: every rank
  // asks for the same sizes in the same order. Throws RunError if there is no more.
  std::span<std::byte> allocate(std::size_t bytes);
  // Takes back what was allocated since the mark: nobody uses it any more, on no rank. Collective as well.
  // Does not block; throws RunError if the system refuses.
  struct Mark {
    std::size_t arena_used = 0;
    std::size_t blocks = 0;
  };
  Mark mark() const { return {arena_used_, owned_.size()}; }
  void release(const Mark& mark);

  void all_reduce(Buffer buffer, ReduceOp op, std::string_view label = {});
  // Rank r's result is at equal_part(count, world, r); the rest of the buffer is undefined.
  void reduce_scatter(Buffer buffer, ReduceOp op, std::string_view label = {});
  // Each rank brings equal_part(count, world, rank); all end with all parts.
  void all_gather(Buffer buffer, std::string_view label = {});
  void broadcast(Buffer buffer, Rank root, std::string_view label = {});
  // The result is at the root; other ranks' buffers are undefined.
  void reduce(Buffer buffer, ReduceOp op, Rank root, std::string_view label = {});
  void barrier(std::string_view label = {});

  // What a call with a buffer from allocate() would use, and why; an all-reduce is an average.
  Choice choice(Operation operation, std::uint64_t bytes) const;

  // Ends a blocked call of another thread with a RunError; nothing works after it. Thread-safe.
  void cancel() { transport_.cancel(); }

  // Bytes that this rank's schedules have delivered to other ranks so far, however they went.
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Plan {
    Schedule schedule;
    std::uint64_t sent_elements = 0;
  };

  void run(Operation operation, Buffer buffer, ReduceOp op, Rank root, std::string_view label);
  void run_in_arena(Operation operation, Algorithm algorithm, Buffer buffer, ReduceOp op, Rank root,
                    const net::Activity& doing);
  void run_in_segments(Operation operation, Algorithm algorithm, Buffer buffer, ReduceOp op, Rank root,
                       const net::Activity& doing);
  Choice choice(const Call& call) const;
  Algorithm algorithm_for(const Call& call);
  Path path_of(const Buffer& buffer) const;
  const Plan& plan(Operation operation, Algorithm algorithm, const Buffer& buffer, Rank root);
  void finish_average(Operation operation, const Buffer& buffer, Rank root) const;

  net::Transport& transport_;
  std::optional<Algorithm> algorithm_;
  std::size_t arena_used_ = 0;
  std::vector<std::unique_ptr<void, void (*)(void*)>> owned_;  // allocations outside shared memory
  std::vector<std::byte> scratch_;
  std::span<std::byte> token_;   // what a barrier reduces
  std::span<std::byte> copies_;  // of small buffers, in turn (one_shot.cc)
  std::map<std::tuple<Operation, ReduceOp, std::uint64_t, Path>, Algorithm> chosen_;
  std::map<std::tuple<Operation, Algorithm, std::size_t, DType, Rank>, Plan> plans_;
  std::uint64_t clock_ = 0;  // rounds run in shared memory so far, the same on all ranks
  std::uint64_t works_ = 0;  // likewise, calls
  std::uint64_t bytes_sent_ = 0;
};

// Everyone's text, by rank, on every rank.
std::vector<std::string> gather_text(Communicator& all, const std::string& mine, std::string_view label = {});

}  // namespace tutti::collectives
