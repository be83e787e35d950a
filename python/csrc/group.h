// Collectives on plain memory among the ranks of a process group: the engine's, and those that c10d has
// beside them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/native.h"
#include "connect.h"
#include "exchange.h"
#include "mailbox.h"

namespace tutti::torch_backend {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

// What the ranks of an exchange must agree about.
enum class Shared : std::uint8_t { all_reduce, broadcast, all_gather, barrier };
net::Announcement announcement(Shared what, std::size_t bytes, int type = 0, int op = 0, int root = 0);

// Every rank makes the same calls in the same order, one thread at a time; messages() apart. Calls block, and
// throw PeerLost, Timeout, ProtocolError.
class Group {
 public:
  explicit Group(Links links);

  int rank() const { return to_int(engine_.rank()); }
  int world() const { return engine_.world(); }
  Mailbox& messages() { return messages_; }

  void all_reduce(const collectives::Buffer& buffer, collectives::ReduceOp op);
  // The result is at the root; the others' buffers are undefined.
  void reduce(const collectives::Buffer& buffer, collectives::ReduceOp op, int root);
  // Rank r's result is in the r-th of `world` equal parts; the rest is undefined.
  void reduce_scatter(const collectives::Buffer& buffer, collectives::ReduceOp op);
  void broadcast(Bytes bytes, int root);
  void barrier();

  // What goes to each rank, and what comes from each; the sizes may differ from rank to rank, as long as both
  // ends agree. Either may be empty as a whole. What goes from this rank to itself is copied.
  void exchange(std::span<const ConstBytes> out, std::span<const Bytes> in, const char* what);
  void all_gather(ConstBytes mine, std::span<const Bytes> all);
  void gather(ConstBytes mine, std::span<const Bytes> all, int root);   // `all` counts at the root
  void scatter(std::span<const ConstBytes> all, Bytes mine, int root);  // likewise

  // Whether ranks share memory, and so few bytes of each are wanted by the others that it is best done in two
  // halves.
  bool is_small(std::size_t bytes) const { return shared_ && bytes <= Exchange::kPlaceBytes; }
  Exchange& shared() { return *shared_; }

  // Ends blocked collectives of other threads; none works after it. Thread-safe.
  void cancel();

 private:
  Links links_;
  collectives::NativeEngine engine_;
  std::optional<Exchange> shared_;
  Mailbox messages_;
  std::vector<std::byte> padded_;
};

}  // namespace tutti::torch_backend
