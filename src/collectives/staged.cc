// The buffer goes through the room in blocks. Two ranks swap blocks, and each adds for itself:
//
//     lays down    1 2 3 4 5 6    7       8       9    ...
//     adds                      1       2       3      ...      the other's block to its own
//
// More ranks would add more often than they need to. A rank adds its part of each block and lays down the
// sum:
//
//     count          1            2                      3                      4
//     lays down      parts of 1   parts of 2, sum of 1   parts of 3, sum of 2   sum of 3
//     then adds      block 1      block 2                block 3
//     and takes                   sums of 1              sums of 2              sums of 3
//
// What costs is the way of a line from one core to another. Where cores share a cache it is short, if the
// writer's own cache has given the line up by then: so nobody reads a block right after it was written. Where
// they do not, fetching a line that another core has changed takes longer than fetching it from memory, and
// nontemporal stores, which leave nothing in the cache, are five times as fast. (4 MB, two ranks, ms: 0.19
// cached, 0.44 nontemporal on cores that share a cache; 1.8 and 0.33 on cores that do not.) A virtual machine
// does not know which of the two it is on, and is moved. So rank 0 times both ways, again and again, and says
// which one the next call takes.
#include "collectives/staged.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/nontemporal.h"
#include "collectives/schedule.h"

namespace tutti::collectives {
namespace {

// Whether `a op b` has the same bits as `b op a`: not so of the lesser of 0 and -0.
bool commutes(ReduceOp op) {
  return op != ReduceOp::min && op != ReduceOp::max;
}

// The quickest of several times, for a kilobyte: one that was interrupted does not count.
class Quickest {
 public:
  template <class Work>
  void time(std::size_t bytes, const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    if (bytes >= 4096) least_ = std::min(least_, spent.count() * 1024 / static_cast<double>(bytes));
  }
  double nanoseconds() const { return least_; }

 private:
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

struct Staging::Call {
  Buffer buffer;
  ReduceOp op;
  int world;
  Way way;
  const net::Activity& doing;
  Quickest laying = {};
  Quickest adding = {};

  std::size_t element() const { return size_of(buffer.type); }
  std::byte* data(std::size_t first) const {
    return static_cast<std::byte*>(buffer.data) + first * element();
  }
  void lay(std::byte* to, const std::byte* from, std::size_t count) {
    const std::size_t bytes = count * element();
    laying.time(bytes, [&] {
      if (way == nontemporal) {
        // No fence is needed before this rank says that it is there: the copy ends with one.
        copy_nontemporal({to, bytes}, {from, bytes});
      } else {
        std::memcpy(to, from, bytes);
      }
    });
  }
  void add(std::byte* into, const std::byte* from, std::size_t count) {
    adding.time(count * element(), [&] { combine(buffer.type, op, into, from, count); });
  }
  void divide_average(std::byte* sum, std::size_t count) const {
    if (op == ReduceOp::average) divide(buffer.type, sum, count, world);
  }
};

Staging::Staging(net::PeerMemory& memory, Rank self, int world, std::size_t at)
    : memory_(memory), self_(to_int(self)), world_(world), at_(at) {
  TUTTI_CHECK(at % 64 == 0 && memory.arena(self).size() >= at + kBytes, "at {}", at);
}

std::byte* Staging::room(int rank, std::size_t offset) const {
  return memory_.arena(Rank{rank}).data() + at_ + 64 + offset;
}

// Rank 0 writes it when it is through with a call, before it meets the others for the next; they read it
// after that, before they let it get through.
std::uint32_t& Staging::next_way() const {
  return *reinterpret_cast<std::uint32_t*>(memory_.arena(Rank{0}).data() + at_);
}

void Staging::choose_next(const Call& call) {
  constexpr std::uint64_t kTryAgain = 64;
  const double cost = call.laying.nanoseconds() + call.adding.nanoseconds();
  if (cost < std::numeric_limits<double>::infinity()) cost_[call.way] = cost;
  const Way better = cost_[nontemporal] < cost_[cached] ? nontemporal : cached;
  const Way other = better == nontemporal ? cached : nontemporal;
  ++calls_;
  next_way() = calls_ % kTryAgain == 0 || cost_[other] == 0 ? other : better;
}

std::uint64_t Staging::swap_blocks(Call& call, std::uint64_t clock) {
  constexpr std::size_t kBlock = std::size_t{128} << 10;
  constexpr std::size_t kSlots = kRoom / kBlock;
  constexpr std::size_t kAhead = kSlots / 2;
  const int peer = 1 - self_;
  const std::size_t most = kBlock / call.element();
  const std::size_t blocks = (call.buffer.count + most - 1) / most;
  const auto count = [&](std::size_t k) { return std::min(most, call.buffer.count - k * most); };
  const auto slot = [&](int rank, std::size_t k) { return room(rank, k % kSlots * kBlock); };

  std::size_t laid = 0;
  for (std::size_t added = 0; added < blocks; ++added) {
    for (; laid < std::min(blocks, added + kAhead); ++laid) {
      // The peer has added what was in this slot, if it has laid down the block that comes kAhead after that.
      if (laid >= kSlots) memory_.await(Rank{peer}, clock + laid - kSlots + kAhead + 1, call.doing);
      call.lay(slot(self_, laid), call.data(laid * most), count(laid));
      memory_.advance(clock + laid + 1);
    }
    memory_.await(Rank{peer}, clock + added + 1, call.doing);
    call.add(call.data(added * most), slot(peer, added), count(added));
    call.divide_average(call.data(added * most), count(added));
  }
  return clock + blocks;
}

std::uint64_t Staging::add_parts(Call& call, std::uint64_t clock) {
  constexpr std::size_t kPlace = kRoom / 2;       // two of them, in turn
  constexpr std::size_t kBlock = kPlace / 3 * 2;  // then the sum, which is half as long at most
  const std::size_t element = call.element();
  const std::size_t most = kBlock / element;
  const std::size_t blocks = (call.buffer.count + most - 1) / most;
  const auto part = [&](std::size_t k, int rank) {
    return equal_chunk(std::min(most, call.buffer.count - k * most), world_, rank);
  };
  const auto place = [&](int rank, std::uint64_t at) { return room(rank, at % 2 * kPlace); };
  const auto for_others = [&](const auto& visit) {
    for (int r = 0; r < world_; ++r) {
      if (r != self_) visit(r);
    }
  };
  const auto lay_down = [&](std::size_t k) {
    for_others([&](int r) {
      const Chunk theirs = part(k, r);
      call.lay(place(self_, clock + 1) + theirs.first * element, call.data(k * most + theirs.first),
               theirs.count);
    });
  };
  const auto add_up = [&](std::size_t k) {
    const Chunk mine = part(k, self_);
    std::byte* sum = call.data(k * most + mine.first);
    for_others([&](int r) { call.add(sum, place(r, clock) + mine.first * element, mine.count); });
    call.divide_average(sum, mine.count);
    call.lay(place(self_, clock + 1) + kBlock, sum, mine.count);
  };
  const auto take_sums = [&](std::size_t k) {
    for_others([&](int r) {
      const Chunk theirs = part(k, r);
      std::memcpy(call.data(k * most + theirs.first), place(r, clock) + kBlock, theirs.count * element);
    });
  };

  for (std::size_t k = 0; k <= blocks; ++k) {
    if (k > 0) add_up(k - 1);
    if (k < blocks) lay_down(k);
    memory_.advance(++clock);
    for_others([&](int r) { memory_.await(Rank{r}, clock, call.doing); });
    if (k > 0) take_sums(k - 1);
  }
  return clock;
}

std::uint64_t Staging::all_reduce(const Buffer& buffer, ReduceOp op, std::uint64_t clock,
                                  const net::Activity& doing) {
  if (world_ == 1 || buffer.count == 0) return clock;
  Call call{buffer, op, world_, static_cast<Way>(next_way()), doing};
  clock = world_ == 2 && commutes(op) ? swap_blocks(call, clock) : add_parts(call, clock);
  if (self_ == 0) choose_next(call);
  return clock;
}

}  // namespace tutti::collectives
