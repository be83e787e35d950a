#include "rendezvous/rendezvous.h"

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstring>

#include "base/aes_gcm.h"
#include "base/error.h"
#include "base/process.h"

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

// All ranks may call at the same moment, and again, where strangers push them out.
std::size_t pending_of(int world) {
  return net::Acceptor::kPending + 2 * static_cast<std::size_t>(world);
}

// What a launcher has open beside the rendezvous, with room to spare.
constexpr std::size_t kOtherDescriptors = 256;

// After the handshake each side sends one message, and a tag under the connection's key behind it: nobody on
// the way sends a rank to another address.
constexpr std::uint64_t kOnlyMessage = 0;

struct SignedCard {
  Card card;
  AesGcm::Tag tag{};
};
static_assert(sizeof(SignedCard) == 64);

AesGcm::Tag sign(const Digest& key, std::span<const Card> cards) {
  return AesGcm(key).authenticate(kOnlyMessage, {}, std::as_bytes(cards));
}

bool is_signed(const Digest& key, std::span<const Card> cards, const AesGcm::Tag& tag) {
  return AesGcm(key).is_authentic(kOnlyMessage, {}, std::as_bytes(cards), tag);
}

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
  // A rank that has proven the secret.
  struct Guest {
    net::Tcp::socket socket;
    net::SessionKeys keys;
    SignedCard said{};   // what it announces
    AesGcm::Tag told{};  // behind the list that it gets
  };

  State(asio::io_context& io, const std::string& address, int w, const net::Credentials& credentials,
        PortRange ports)
      : world(w),
        cards(static_cast<std::size_t>(w)),
        acceptor(
            io, address, ports, credentials, net::kRendezvous,
            [this](Rank from) { return to_int(from) >= 0 && to_int(from) < world && !guests.contains(from); },
            [this](Rank from, net::Tcp::socket socket, const net::SessionKeys& keys) {
              seat(from, {std::move(socket), keys});
            },
            pending_of(w)) {
    allow_descriptors(pending_of(w) + static_cast<std::size_t>(w) + kOtherDescriptors);
  }

  void seat(Rank from, Guest arrived) {
    auto& guest = guests.emplace(from, std::move(arrived)).first->second;
    asio::async_read(guest.socket, asio::buffer(&guest.said, sizeof guest.said),
                     [self = shared_from_this(), from](error_code e, std::size_t) {
                       if (e || !self->note(from)) self->dismiss(from);
                     });
  }

  // False if the card is not as the guest has sent it.
  bool note(Rank from) {
    const Guest& guest = guests.at(from);
    if (!is_signed(guest.keys.receiving, {&guest.said.card, 1}, guest.said.tag)) return false;
    cards[static_cast<std::size_t>(to_int(from))] = guest.said.card;
    if (++announced == world) tell_all();
    return true;
  }

  // It proved the secret and then left or broke off. The others learn of it from the launcher or by their
  // deadline.
  void dismiss(Rank from) {
    guests.erase(from);
    ++broken;
  }

  void tell_all() {
    for (auto& [rank, guest] : guests) {
      guest.told = sign(guest.keys.sending, cards);
      const std::array<asio::const_buffer, 2> list = {asio::buffer(cards), asio::buffer(guest.told)};
      asio::async_write(guest.socket, list, [self = shared_from_this()](error_code, std::size_t) {});
    }
  }

  int world;
  int announced = 0;
  std::uint64_t broken = 0;
  std::vector<Card> cards;
  std::map<Rank, Guest> guests;
  net::Acceptor acceptor;
};

Rendezvous::Rendezvous(asio::io_context& io, const std::string& address, int world,
                       const net::Credentials& credentials, PortRange ports)
    : state_(std::make_shared<State>(io, address, world, credentials, ports)) {}

Rendezvous::~Rendezvous() {
  close();
}

void Rendezvous::close() {
  state_->acceptor.close();
  for (auto& [rank, guest] : state_->guests) {
    error_code ignored;
    guest.socket.close(ignored);
  }
}

net::Endpoint Rendezvous::endpoint() const {
  const auto e = state_->acceptor.endpoint();
  return {e.address().to_string(), e.port()};
}

std::uint64_t Rendezvous::rejected_connections() const {
  return state_->acceptor.rejected_connections() + state_->broken;
}

std::vector<net::Endpoint> join(const net::Endpoint& rendezvous, const net::Credentials& credentials,
                                Rank self, int world, const net::Endpoint& mine, Deadline deadline) {
  const auto [fd, keys] = net::dial(rendezvous, credentials, self, net::kRendezvous, deadline);
  SignedCard own{.card = card_of(mine)};
  own.tag = sign(keys.sending, {&own.card, 1});
  net::write_exactly(fd.get(), std::as_bytes(std::span(&own, 1)), self, net::kRendezvous, "rendezvous",
                     deadline);
  std::vector<Card> cards(static_cast<std::size_t>(world));
  AesGcm::Tag tag;
  for (const auto part : {std::as_writable_bytes(std::span(cards)), std::span<std::byte>(tag)}) {
    net::read_exactly(fd.get(), part, self, net::kRendezvous, "rendezvous", deadline);
  }
  if (!is_signed(keys.receiving, cards, tag)) {
    throw ProtocolError(fmt::format("rank {}: the list of ranks from {}:{} was altered on its way",
                                    to_int(self), rendezvous.host, rendezvous.port));
  }
  std::vector<net::Endpoint> endpoints;
  endpoints.reserve(cards.size());
  for (const Card& c : cards) endpoints.push_back(endpoint_of(c));
  return endpoints;
}

}  // namespace tutti::rendezvous
