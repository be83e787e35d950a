// The engine "native": collectives over a transport of our own, by schedules.
//
// By messages a length that differs between ranks is a ProtocolError; in shared memory any difference is one,
// on every rank, before a byte is read. (A buffer that lies in shared memory on one rank and outside on
// another ends with Timeout.) One engine a transport.
//
// A buffer from allocate() is reduced in place where ranks share memory: loads, adds and stores on each
// other's buffers, with no copy between. Any other buffer travels as messages. The same world, transport,
// algorithm and input give the same bits, on every rank.
//
// Over a network that joins several hosts, the engine can be told which ranks share one (Hosts). Memory from
// allocate() is then shared by these, and an all-reduce may use it (hierarchical.cc); all else goes over the
// network, from wherever the buffer lies. An all-reduce there takes the ranks host by host, whichever numbers
// they have: a ring then crosses each host's link once each way.
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
#include "collectives/in_order.h"
#include "collectives/schedule.h"
#include "net/group.h"
#include "net/transport.h"

namespace tutti::collectives {

// Where the ranks of a transport are.
struct Hosts {
  std::vector<int> by_rank = {};  // the number of each rank's host; empty: nothing is known
  // Those of this rank's host in shared memory, ranked in the order of their ranks; null if it is alone
  // there.
  net::Transport* neighbours = nullptr;
};

class Hierarchy;

class NativeEngine final : public Collectives {
 public:
  // Without an algorithm each call takes what choose() says. The transports outlive the engine.
  explicit NativeEngine(net::Transport& transport, std::optional<Algorithm> algorithm = std::nullopt,
                        const Hosts& hosts = {});
  ~NativeEngine() override;
  NativeEngine(const NativeEngine&) = delete;
  NativeEngine& operator=(const NativeEngine&) = delete;

  Rank rank() const override { return transport_.rank(); }
  int world() const override { return transport_.world(); }

  std::span<std::byte> allocate(std::size_t bytes) override;
  Mark mark() const override;
  void release(const Mark& mark) override;

  void all_reduce(Buffer buffer, ReduceOp op, std::string_view label = {}) override;
  void reduce_scatter(Buffer buffer, ReduceOp op, std::string_view label = {}) override;
  void all_gather(Buffer buffer, std::string_view label = {}) override;
  void broadcast(Buffer buffer, Rank root, std::string_view label = {}) override;
  void reduce(Buffer buffer, ReduceOp op, Rank root, std::string_view label = {}) override;
  void barrier(std::string_view label = {}) override;
  void average_shards(Operation operation, const ShardSums& sums, Rank root = Rank{0},
                      std::string_view label = {}) override;

  Method method(Operation operation, std::uint64_t bytes) const override;
  Method method_of_shards(Operation operation, std::uint64_t bytes) const override;
  void cancel() override;
  std::uint64_t bytes_sent() const override;
  Collectives* neighbours() override;

  // Whether the buffer lies in memory of allocate() that ranks read in place.
  bool owns(const Buffer& buffer) const { return path_of(buffer) == Path::in_place; }

 private:
  struct Plan {
    Schedule schedule;
    std::uint64_t sent_elements = 0;
  };

  void run(Operation operation, Buffer buffer, ReduceOp op, Rank root, std::string_view label);
  void run_in_arena(Operation operation, Algorithm algorithm, Buffer buffer, ReduceOp op, Rank root,
                    const net::Activity& doing);
  void run_in_blocks(Operation operation, Algorithm algorithm, Buffer buffer, ReduceOp op, Rank root,
                     const net::Activity& doing);
  void add_in_arena(const ShardSums& sums, Algorithm algorithm, const net::Activity& doing);
  void add_by_messages(Operation operation, const ShardSums& sums, Algorithm algorithm, Rank root,
                       const net::Activity& doing);
  std::size_t place_of(const void* in_arena) const;
  Algorithm algorithm_for(const Call& call);
  Path path_of(const Buffer& buffer) const;
  // `place` is this rank's among those that the schedule is for.
  const Plan& plan(Operation operation, Algorithm algorithm, const Buffer& buffer, Rank place, Rank root);
  void finish_average(Operation operation, const Buffer& buffer, Rank root) const;

  // The engine of the ranks of this host, which then allocates buffers in place of this one; null: there is
  // none.
  NativeEngine* inside() const;

  net::Transport& transport_;
  std::optional<Algorithm> algorithm_;
  int hosts_ = 1;                          // as in Call
  std::unique_ptr<Hierarchy> hierarchy_;   // where there are several hosts, and fewer than ranks
  std::optional<net::Survivors> by_host_;  // all ranks, those of a host side by side; none: they are already
  std::size_t arena_used_ = 0;
  std::vector<std::unique_ptr<void, void (*)(void*)>> owned_;  // allocations outside shared memory
  std::vector<std::byte> scratch_;
  std::span<std::byte> token_;   // what a barrier reduces
  std::span<std::byte> copies_;  // of small buffers, in turn (one_shot.cc)
  // What choose() said, because it puts its reasons into words.
  std::map<std::tuple<Operation, ReduceOp, std::uint64_t, Path, int>, Choice> chosen_;
  std::map<std::tuple<Operation, Algorithm, std::size_t, DType, Rank>, Plan> plans_;
  std::map<std::tuple<Operation, Algorithm, std::size_t, Rank, int>, OrderedSchedule> ordered_;
  std::uint64_t clock_ = 0;  // rounds run in shared memory so far, the same on all ranks
  std::uint64_t works_ = 0;  // likewise, calls
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace tutti::collectives
