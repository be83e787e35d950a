// Collectives among all ranks of a job: the interface of an engine.
//
//   NativeEngine all(transport);                          // collectives/native.h
//   auto gradients = all.allocate(bytes);                 // memory that this engine moves best
//   all.all_reduce({gradients.data(), count, DType::f32}, ReduceOp::average, "bucket 0, step 17");
//
// Every rank calls the same operations in the same order with the same counts and types. One thread at a
// time. Every call blocks, and ends with PeerLost or Timeout when a peer fails. Results do not depend on
// timing: the same engine, world and input give the same bits, on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rank.h"
#include "base/shard_tree.h"
#include "collectives/reduce.h"
#include "collectives/schedule.h"

namespace tutti::collectives {

// Where memory is.
struct Device {
  enum class Kind { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DType type = DType::f32;
  Device device = {};
  // Of a GPU's buffer, its cudaStream_t: the call begins after what is queued there, and what is queued later
  // waits for the call.
  void* stream = nullptr;
  std::size_t bytes() const { return count * size_of(type); }
};

// Where a chunk of the buffer lies.
inline std::span<std::byte> bytes_of(const Buffer& buffer, const Chunk& chunk) {
  const std::size_t size = size_of(buffer.type);
  return {static_cast<std::byte*>(buffer.data) + chunk.first * size, chunk.count * size};
}

// What a rank has of the sums of a tree of shards: the nodes of its run, in the places that
// ShardTree::held_of() says. There are as many places as any rank needs (ShardTree::places_of), of one type
// and length; those beyond this rank's own are scratch.
struct ShardSums {
  const ShardTree& tree;
  std::span<const Buffer> places;
};

// How an engine carries out a call, in words for log and report.
struct Method {
  std::string algorithm;  // as people write it
  std::string reason;     // one line: why this one
};

class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual Rank rank() const = 0;
  virtual int world() const = 0;

  // Zeroed memory for buffers, aligned for vectors, owned by the engine. A collective call: every rank asks
  // for the same sizes in the same order. Throws RunError if there is no more.
  virtual std::span<std::byte> allocate(std::size_t bytes) = 0;
  // Takes back what was allocated since the mark: nobody uses it any more, on no rank. Collective as well.
  // Does not block; throws RunError if the system refuses.
  struct Mark {
    std::size_t shared = 0;  // bytes that ranks read in place
    std::size_t own = 0;     // blocks outside of them
  };
  virtual Mark mark() const = 0;
  virtual void release(const Mark& mark) = 0;

  virtual void all_reduce(Buffer buffer, ReduceOp op, std::string_view label = {}) = 0;
  // Rank r's result is at equal_chunk(count, world, r); the rest of the buffer is undefined.
  virtual void reduce_scatter(Buffer buffer, ReduceOp op, std::string_view label = {}) = 0;
  // Each rank brings equal_chunk(count, world, rank); all end with all chunks.
  virtual void all_gather(Buffer buffer, std::string_view label = {}) = 0;
  virtual void broadcast(Buffer buffer, Rank root, std::string_view label = {}) = 0;
  // The result is at the root; other ranks' buffers are undefined.
  virtual void reduce(Buffer buffer, ReduceOp op, Rank root, std::string_view label = {}) = 0;
  virtual void barrier(std::string_view label = {}) = 0;

  // The mean over all shards, added up in the order of their tree: the same bits from every engine, by every
  // algorithm, at every number of ranks. In the first place of every rank (all_reduce), or of the root's
  // (reduce); what the other places hold is lost. Rank r has the shards that ShardTree::run_of() gives it.
  virtual void average_shards(Operation operation, const ShardSums& sums, Rank root = Rank{0},
                              std::string_view label = {});

  // What a call with a buffer from allocate() would use, and why; an all-reduce is an average.
  virtual Method method(Operation operation, std::uint64_t bytes) const = 0;
  // Likewise of average_shards().
  virtual Method method_of_shards(Operation operation, std::uint64_t bytes) const;

  // Ends a blocked call of another thread with a RunError; nothing works after it. Thread-safe.
  virtual void cancel() = 0;

  // Bytes that this rank has delivered to other ranks so far, however they went.
  virtual std::uint64_t bytes_sent() const = 0;

  // The ranks of this host among themselves, where this engine joins them in shared memory and others over a
  // network; null else. It reduces buffers from allocate() in place, belongs to this engine, and is used by
  // the same thread.
  virtual Collectives* neighbours() { return nullptr; }
};

// Everyone's text, by rank, on every rank.
std::vector<std::string> gather_text(Collectives& all, const std::string& mine, std::string_view label = {});

}  // namespace tutti::collectives
