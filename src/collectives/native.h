// The engine "native": collectives over a transport of our own, by schedules.
//
// By messages a length that differs between ranks is a ProtocolError; in shared memory any difference is one,
// on every rank, before a byte is read. (A buffer that lies in shared memory on one rank and outside on
// another ends with Timeout.) One engine a transport.
//
// A buffer from allocate() is reduced in place where ranks share memory: loads, adds and stores on each
// other's buffers, with no copy between. Any other buffer travels as messages. The same world, transport,
// algorithm and input give the same bits, on every rank.
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
#include "collectives/collectives.h"
#include "collectives/schedule.h"
#include "net/transport.h"

namespace tutti::collectives {

class NativeEngine final : public Collectives {
 public:
  // Without an algorithm each call takes what choose() says. The transport outlives the engine.
  explicit NativeEngine(net::Transport& transport, std::optional<Algorithm> algorithm = std::nullopt);
  NativeEngine(const NativeEngine&) = delete;
  NativeEngine& operator=(const NativeEngine&) = delete;

  Rank rank() const override { return transport_.rank(); }
  int world() const override { return transport_.world(); }

  std::span<std::byte> allocate(std::size_t bytes) override;
  Mark mark() const override { return {arena_used_, owned_.size()}; }
  void release(const Mark& mark) override;

  void all_reduce(Buffer buffer, ReduceOp op, std::string_view label = {}) override;
  void reduce_scatter(Buffer buffer, ReduceOp op, std::string_view label = {}) override;
  void all_gather(Buffer buffer, std::string_view label = {}) override;
  void broadcast(Buffer buffer, Rank root, std::string_view label = {}) override;
  void reduce(Buffer buffer, ReduceOp op, Rank root, std::string_view label = {}) override;
  void barrier(std::string_view label = {}) override;

  Method method(Operation operation, std::uint64_t bytes) const override;
  void cancel() override { transport_.cancel(); }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }

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
  // What choose() said, because it puts its reasons into words.
  std::map<std::tuple<Operation, ReduceOp, std::uint64_t, Path>, Choice> chosen_;
  std::map<std::tuple<Operation, Algorithm, std::size_t, DType, Rank>, Plan> plans_;
  std::uint64_t clock_ = 0;  // rounds run in shared memory so far, the same on all ranks
  std::uint64_t works_ = 0;  // likewise, calls
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace tutti::collectives
