#include "rendezvous/rendezvous.h"

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstring>

#include "base/error.h"

namespace tutti::rendezvous {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// An address as it travels: digits, padded with zeros. Fixed size, so nothing depends on what a peer says.
struct Card {
  std::array<char, 46> host{};
  std::uint16_t port = 0;
};
static_assert(sizeof(Card) == 48);

Card card_of(const net::Endpoint& e) {
  Card card;
  TUTTI_CHECK(e.host.size() < card.host.size());
  std::memcpy(card.host.data(), e.host.data(), e.host.size());
  card.port = e.port;
  return card;
}

net::Endpoint endpoint_of(const Card& card) {
  return {std::string(card.host.data(), ::strnlen(card.host.data(), card.host.size())), card.port};
}

}  // namespace

struct Rendezvous::State : std::enable_shared_from_this<State> {
  State(asio::io_context& io, const std::string& address, int w, const net::Secret& secret)
      : world(w),
        cards(static_cast<std::size_t>(w)),
        acceptor(
            io, address, 0, secret, net::kRendezvous,
            [this](Rank from) { return to_int(from) >= 0 && to_int(from) < world && !guests.contains(from); },
            [this](Rank from, net::Tcp::socket socket) { seat(from, std::move(socket)); }) {}

  void seat(Rank from, net::Tcp::socket socket) {
    auto& guest = guests.emplace(from, std::move(socket)).first->second;
    auto& card = cards[static_cast<std::size_t>(to_int(from))];
    asio::async_read(guest, asio::buffer(&card, sizeof card),
                     [self = shared_from_this(), from](error_code e, std::size_t) {
                       if (e) return self->dismiss(from);
                       if (++self->announced == self->world) self->tell_all();
                     });
  }

  // It proved the secret and then left or broke off. The others learn of it from the launcher or by their
  // deadline.
  void dismiss(Rank from) {
    guests.erase(from);
    ++broken;
  }

  void tell_all() {
    for (auto& [rank, socket] : guests) {
      asio::async_write(socket, asio::buffer(cards.data(), cards.size() * sizeof(Card)),
                        [self = shared_from_this()](error_code, std::size_t) {});
    }
  }

  int world;
  int announced = 0;
  std::uint64_t broken = 0;
  std::vector<Card> cards;
  std::map<Rank, net::Tcp::socket> guests;
  net::Acceptor acceptor;
};

Rendezvous::Rendezvous(asio::io_context& io, const std::string& address, int world, const net::Secret& secret)
    : state_(std::make_shared<State>(io, address, world, secret)) {}

Rendezvous::~Rendezvous() {
  close();
}

void Rendezvous::close() {
  state_->acceptor.close();
  for (auto& [rank, socket] : state_->guests) {
    error_code ignored;
    socket.close(ignored);
  }
}

net::Endpoint Rendezvous::endpoint() const {
  const auto e = state_->acceptor.endpoint();
  return {e.address().to_string(), e.port()};
}

std::uint64_t Rendezvous::rejected_connections() const {
  return state_->acceptor.rejected_connections() + state_->broken;
}

std::vector<net::Endpoint> join(const net::Endpoint& rendezvous, const net::Secret& secret, Rank self,
                                int world, const net::Endpoint& mine, Deadline deadline) {
  const UniqueFd fd = net::dial(rendezvous, secret, self, net::kRendezvous, deadline);
  const Card card = card_of(mine);
  net::write_exactly(fd.get(), std::as_bytes(std::span(&card, 1)), self, net::kRendezvous, "rendezvous",
                     deadline);
  std::vector<Card> cards(static_cast<std::size_t>(world));
  net::read_exactly(fd.get(), std::as_writable_bytes(std::span(cards)), self, net::kRendezvous, "rendezvous",
                    deadline);
  std::vector<net::Endpoint> endpoints;
  for (const Card& c : cards) endpoints.push_back(endpoint_of(c));
  return endpoints;
}

}  // namespace tutti::rendezvous
