#include "collectives/foreign.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tutti::collectives {
namespace {

// Most calls are done by then, and cost no look at the board.
constexpr auto kAtOnce = std::chrono::milliseconds(2);
// How often a wait looks whether it is in vain.
constexpr auto kGlance = std::chrono::milliseconds(20);

// A peer that is done with a call may leave before its last bytes have come out of the library here; only if
// they do not come in this time was it lost in the midst of it.
constexpr auto kLastBytes = std::chrono::milliseconds(500);

// What each rank must send at least, on average, in bytes.
std::uint64_t least_sent(Operation operation, std::uint64_t bytes, int world) {
  const auto n = static_cast<std::uint64_t>(world);
  const std::uint64_t once = bytes * (n - 1) / n;
  return operation == Operation::all_reduce ? 2 * once : once;
}

// Makes this rank's result of a reduction that has summed the average.
void divide_sum(Operation operation, const Buffer& buffer, Rank root, Rank rank, int world) {
  if (operation == Operation::reduce && rank != root) return;
  Chunk part{0, buffer.count};
  if (operation == Operation::reduce_scatter) part = equal_chunk(buffer.count, world, to_int(rank));
  auto* first = static_cast<std::byte*>(buffer.data) + part.first * size_of(buffer.type);
  divide(buffer.type, first, part.count, world);
}

}  // namespace

void ForeignEngine::all_reduce(Buffer buffer, ReduceOp op, std::string_view label) {
  run({Operation::all_reduce, buffer, op, Rank{0}}, op == ReduceOp::average, label);
}

void ForeignEngine::reduce_scatter(Buffer buffer, ReduceOp op, std::string_view label) {
  run({Operation::reduce_scatter, buffer, op, Rank{0}}, op == ReduceOp::average, label);
}

void ForeignEngine::all_gather(Buffer buffer, std::string_view label) {
  run({Operation::all_gather, buffer, ReduceOp::sum, Rank{0}}, false, label);
}

void ForeignEngine::broadcast(Buffer buffer, Rank root, std::string_view label) {
  run({Operation::broadcast, buffer, ReduceOp::sum, root}, false, label);
}

void ForeignEngine::reduce(Buffer buffer, ReduceOp op, Rank root, std::string_view label) {
  run({Operation::reduce, buffer, op, root}, op == ReduceOp::average, label);
}

void ForeignEngine::barrier(std::string_view label) {
  run({Operation::barrier, {}, ReduceOp::sum, Rank{0}}, false, label);
}

void ForeignEngine::cancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  native_.cancel();
}

void ForeignEngine::run(const Request& request, bool average, std::string_view label) {
  const auto& [operation, buffer, op, root] = request;
  TUTTI_CHECK(to_int(root) >= 0 && to_int(root) < world(), "root {}", to_int(root));
  TUTTI_CHECK(buffer.device == Device{}, "this engine moves memory of the host alone");
  if (op == ReduceOp::product || op == ReduceOp::bit_and || op == ReduceOp::bit_or || op == ReduceOp::bit_xor)
    throw ConfigError(
        fmt::format("{} by {}: only the engine native does that", name_of(operation), name_of(op)));
  if (world() == 1) return;
  if (buffer.count == 0 && operation != Operation::barrier) return;
  const net::Activity doing{name_of(operation), label};
  if (failed_)
    throw RunError(fmt::format("rank {}: {}: a call before it failed", to_int(rank()), doing.text()));
  failed_ = true;  // until it has gone well
  carry_out({operation, buffer, average ? ReduceOp::sum : op, root}, doing);
  failed_ = false;
  transport_.board().advance(rank());
  if (operation != Operation::barrier) bytes_sent_ += least_sent(operation, buffer.bytes(), world());
  if (average) divide_sum(operation, buffer, root, rank(), world());
}

void ForeignEngine::carry_out(const Request& request, const net::Activity& doing) {
  try {
    const auto work = start(request, doing);
    if (!work || work->wait(kAtOnce)) return;
    watch(
        [&](Clock::duration at_most) {
          if (work->wait(at_most)) return true;
          if (cancelled_.load(std::memory_order_relaxed)) throw RunError("cancelled");
          return false;
        },
        doing);
  } catch (const PeerError&) {
    throw;
  } catch (const std::exception& e) {
    if (cancelled_.load(std::memory_order_relaxed))
      throw RunError(fmt::format("rank {}: {} was cancelled", to_int(rank()), doing.text()));
    // The library says that something has happened to a connection; who it was the transport knows soon.
    look_for_lost_peer(kLastBytes, doing);
    throw RunError(fmt::format("rank {}: {}: {}", to_int(rank()), doing.text(), e.what()));
  }
}

void ForeignEngine::watch(const std::function<bool(Clock::duration at_most)>& over,
                          const net::Activity& doing) {
  const net::Waiting shown(transport_.board(), rank());
  net::Stall stall(transport_.board(), timeout_);
  std::vector<bool> came(static_cast<std::size_t>(world()));  // has waited since anybody got on
  while (!over(kGlance)) {
    const bool in_vain = stall.over();
    if (stall.standing() == Clock::duration::zero()) came.assign(came.size(), false);
    // Remembered, because the others may give up before this one, and do not wait any more then.
    for (std::size_t r = 0; r < came.size(); ++r) {
      if (transport_.board().vitals(Rank{static_cast<int>(r)}).waiting) came[r] = true;
    }
    if (in_vain) {
      gave_up_.emplace(transport_.board(), rank());
      throw Timeout({rank(), whom_all_wait_for(came), doing.text(), stall.standing_ms()});
    }
    // A transport that was cancelled answers nothing any more.
    if (cancelled_.load(std::memory_order_relaxed)) continue;
    try {
      look_for_lost_peer(Clock::duration::zero(), doing);
    } catch (const PeerLost&) {
      if (over(kLastBytes)) return;
      throw;
    }
  }
}

// Throws PeerLost if the transport knows that a peer is gone.
void ForeignEngine::look_for_lost_peer(Clock::duration at_most, const net::Activity& doing) {
  std::vector<Rank> peers;
  for (int r = 0; r < world(); ++r) {
    if (Rank{r} != rank()) peers.push_back(Rank{r});
  }
  // No message is on its way: what the ranks say to each other goes through the library.
  (void)transport_.wait_for_any(peers, at_most, doing);
}

// Whoever came is not to blame; where all did, or nothing can be seen, the first other.
Rank ForeignEngine::whom_all_wait_for(const std::vector<bool>& came) const {
  const auto missing = std::ranges::find(came, false);  // not this one, which waits
  if (missing != came.end()) return Rank{static_cast<int>(missing - came.begin())};
  return Rank{rank() == Rank{0} ? 1 : 0};
}

}  // namespace tutti::collectives
