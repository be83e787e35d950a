// A large all-reduce goes in pieces, and a piece in parts, one a rank. A rank lays down the parts of the
// others, adds theirs to its own part, lays down the sum, and takes the others' sums:
//
//     exchange       1            2                    3                    4
//     lays down      parts of 1   parts of 2, sum of 1 parts of 3, sum of 2 sum of 3
//     then adds      piece 1      piece 2              piece 3
//     and takes                   sums of 1            sums of 2            sums of 3
//
// There is one wait a piece, and what lies in shared memory between two waits stays in the second-level
// cache. A part is summed by one rank and copied to the others: all have the same bits.
#include "exchange.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "collectives/schedule.h"

namespace tutti::torch_backend {
namespace {

// A place holds a piece and a sum, which is at most as long.
constexpr std::size_t kPieceBytes = Exchange::kPlaceBytes / 2;

net::PeerMemory& memory_of(net::Transport& transport) {
  TUTTI_CHECK(transport.peer_memory() != nullptr, "exchanges need shared memory");
  return *transport.peer_memory();
}

// One piece of a buffer.
struct Piece {
  std::byte* data;
  std::size_t count;
  std::size_t element;
  int world;

  std::size_t at(int part) const { return collectives::equal_chunk(count, world, part).first * element; }
  std::size_t bytes(int part) const { return collectives::equal_chunk(count, world, part).count * element; }
};

}  // namespace

Exchange::Exchange(std::unique_ptr<net::Transport> transport)
    : transport_(std::move(transport)), memory_(memory_of(*transport_)) {}

std::span<std::byte> Exchange::place_of(Rank rank, std::uint64_t number) const {
  return memory_.arena(rank).subspan(number % 2 * kPlaceBytes, kPlaceBytes);
}

std::span<std::byte> Exchange::place() {
  return place_of(transport_->rank(), number_ + 1);
}

std::span<const std::byte> Exchange::place_of(Rank rank) const {
  return place_of(rank, number_);
}

void Exchange::publish(const net::Announcement& what) {
  announced_ = what;
  memory_.announce(++number_, what);
  memory_.advance(number_);
}

void Exchange::await_all(const net::Activity& doing) {
  for (int r = 0; r < transport_->world(); ++r) {
    if (Rank{r} == transport_->rank()) continue;
    memory_.await(Rank{r}, number_, doing);
    if (memory_.announced(Rank{r}, number_) == announced_) continue;
    throw ProtocolError(fmt::format("rank {}: rank {} does something else than {} of this type and length",
                                    to_int(transport_->rank()), r, doing.text()));
  }
}

void Exchange::all_reduce(const collectives::Buffer& buffer, collectives::ReduceOp op,
                          const net::Announcement& what) {
  const int self = to_int(transport_->rank());
  const int world = transport_->world();
  const std::size_t element = size_of(buffer.type);
  const std::size_t most = kPieceBytes / element;
  const std::size_t pieces = (buffer.count + most - 1) / most;
  const auto piece = [&](std::size_t k) {
    return Piece{static_cast<std::byte*>(buffer.data) + k * most * element,
                 std::min(most, buffer.count - k * most), element, world};
  };
  const auto for_others = [&](const auto& visit) {
    for (int r = 0; r < world; ++r) {
      if (r != self) visit(r);
    }
  };
  const auto lay_down = [&](const Piece& p) {
    for_others([&](int r) { std::memcpy(place().data() + p.at(r), p.data + p.at(r), p.bytes(r)); });
  };
  const auto add_up = [&](const Piece& p) {
    std::byte* sum = p.data + p.at(self);
    for_others([&](int r) {
      collectives::combine(buffer.type, op, sum, place_of(Rank{r}).data() + p.at(self),
                           p.bytes(self) / element);
    });
    if (op == collectives::ReduceOp::average)
      collectives::divide(buffer.type, sum, p.bytes(self) / element, world);
    std::memcpy(place().data() + kPieceBytes, sum, p.bytes(self));
  };
  const auto take_sums = [&](const Piece& p) {
    for_others(
        [&](int r) { std::memcpy(p.data + p.at(r), place_of(Rank{r}).data() + kPieceBytes, p.bytes(r)); });
  };

  for (std::size_t k = 0; k <= pieces && pieces > 0; ++k) {
    if (k > 0) add_up(piece(k - 1));
    if (k < pieces) lay_down(piece(k));
    publish(what);
    await_all({"all-reduce"});
    if (k > 0) take_sums(piece(k - 1));
  }
}

}  // namespace tutti::torch_backend
