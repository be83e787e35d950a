#include "exchange.h"

#include "base/error.h"

namespace tutti::torch_backend {
namespace {

net::PeerMemory& memory_of(net::Transport& transport) {
  TUTTI_CHECK(transport.peer_memory() != nullptr, "exchanges need shared memory");
  return *transport.peer_memory();
}

}  // namespace

Exchange::Exchange(std::unique_ptr<net::Transport> transport)
    : transport_(std::move(transport)),
      memory_(memory_of(*transport_)),
      staging_(memory_, transport_->rank(), transport_->world(), 2 * kPlaceBytes) {}

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
  publish(what);
  await_all({"all-reduce"});
  number_ = staging_.all_reduce(buffer, op, number_, {"all-reduce"});
}

}  // namespace tutti::torch_backend
