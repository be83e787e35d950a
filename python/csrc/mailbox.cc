#include "mailbox.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/process.h"

namespace tutti::torch_backend {
namespace {

// Up to here a message is cheaper to copy than to ask about.
constexpr std::size_t kMostUnasked = std::size_t{16} << 10;

enum class Kind : std::uint32_t { data, offer, request, refusal, payload };

std::exception_ptr other_length(std::uint64_t sent, std::size_t expected) {
  return std::make_exception_ptr(
      ProtocolError(fmt::format("a message of {} bytes was sent to a receive of {} bytes", sent, expected)));
}

}  // namespace

struct Mailbox::Header {
  Kind kind{};
  std::uint32_t reserved = 0;
  std::uint64_t tag = 0;
  std::uint64_t length = 0;
  std::uint64_t number = 0;
};

struct Mailbox::Letter {
  Rank to{};
  Header header;
  std::span<const std::byte> bytes;
  Done done;
};

struct Mailbox::Posted {
  std::uint64_t number = 0;
  std::optional<Rank> from;
  std::uint64_t tag = 0;
  std::span<std::byte> into;
  Done done;
};

struct Mailbox::Arrived {
  Rank from{};
  Header header;
  std::vector<std::byte> bytes;
};

Mailbox::Mailbox(std::unique_ptr<net::Transport> transport) : transport_(std::move(transport)) {}

Mailbox::~Mailbox() {
  close();
}

void Mailbox::cancel() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  to_send_.notify_all();
  transport_->cancel();
  fail_everything(std::make_exception_ptr(RunError("the process group was destroyed")));
}

void Mailbox::close() {
  cancel();
  std::thread sender;
  std::thread receiver;
  {
    const std::lock_guard lock(mutex_);
    sender.swap(sender_);
    receiver.swap(receiver_);
  }
  if (sender.joinable()) sender.join();
  if (receiver.joinable()) receiver.join();
}

// With the lock held.
void Mailbox::start() {
  if (stopping_ || sender_.joinable() || transport_->world() == 1) return;
  sender_ = std::thread([this] { send_all(); });
  receiver_ = std::thread([this] { receive_all(); });
}

void Mailbox::send(Rank to, std::uint64_t tag, std::span<const std::byte> bytes, Done done) {
  std::unique_lock lock(mutex_);
  const auto lost = lost_.find(to);
  if (lost != lost_.end()) {
    const auto failure = lost->second;
    lock.unlock();
    return done({failure, to});
  }
  start();
  Letter letter{to, {Kind::data, 0, tag, bytes.size(), next_number_++}, bytes, std::move(done)};
  if (bytes.size() > kMostUnasked) {
    letter.header.kind = Kind::offer;
    outbox_.push_back({to, letter.header, {}, {}});
    offered_.emplace(letter.header.number, std::move(letter));
  } else {
    outbox_.push_back(std::move(letter));
  }
  to_send_.notify_one();
}

std::uint64_t Mailbox::receive(std::optional<Rank> from, std::uint64_t tag, std::span<std::byte> into,
                               Done done) {
  Calls calls;
  std::unique_lock lock(mutex_);
  start();
  const std::uint64_t number = next_number_++;
  Posted posted{number, from, tag, into, std::move(done)};
  const auto found = std::ranges::find_if(
      arrived_, [&](const Arrived& a) { return a.header.tag == tag && (!from || a.from == *from); });
  if (found != arrived_.end()) {
    const Arrived message = std::move(*found);
    arrived_.erase(found);
    if (message.header.kind == Kind::offer) {
      answer_offer(std::move(posted), message.from, message.header, calls);
      lock.unlock();
      for (const auto& call : calls) call();
    } else {
      lock.unlock();
      deliver(std::move(posted), message.from, message.bytes);
    }
    return number;
  }
  // From anybody it is hopeless only when nobody is left.
  const auto lost = from ? lost_.find(*from) : lost_.begin();
  if (from ? lost != lost_.end() : static_cast<int>(lost_.size()) == transport_->world() - 1) {
    const Delivery delivery{lost == lost_.end() ? nullptr : lost->second, from.value_or(transport_->rank())};
    lock.unlock();
    posted.done(delivery);
    return number;
  }
  posted_.push_back(std::move(posted));
  return number;
}

bool Mailbox::withdraw(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(posted_, [&](const Posted& p) { return p.number == number; }) > 0;
}

void Mailbox::deliver(Posted posted, Rank from, std::span<const std::byte> bytes) {
  if (bytes.size() != posted.into.size())
    return posted.done({other_length(bytes.size(), posted.into.size()), from});
  std::ranges::copy(bytes, posted.into.begin());
  posted.done({nullptr, from});
}

void Mailbox::send_all() {
  name_thread("tutti send");
  std::unique_lock lock(mutex_);
  while (true) {
    to_send_.wait(lock, [&] { return stopping_ || !outbox_.empty(); });
    if (stopping_) return;
    Letter letter = std::move(outbox_.front());
    outbox_.pop_front();
    lock.unlock();
    const net::Activity doing{"a send"};
    Delivery delivery{nullptr, letter.to};
    try {
      net::send(*transport_, letter.to, std::as_bytes(std::span(&letter.header, 1)), doing);
      if (!letter.bytes.empty()) net::send(*transport_, letter.to, letter.bytes, doing);
    } catch (...) {
      delivery.failure = std::current_exception();
      lose({letter.to}, delivery.failure);
    }
    if (letter.done) letter.done(delivery);
    letter = {};  // what it holds is let go without the lock
    lock.lock();
  }
}

void Mailbox::receive_all() {
  name_thread("tutti receive");
  while (true) {
    std::vector<Rank> peers;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      for (int r = 0; r < transport_->world(); ++r) {
        if (Rank{r} != transport_->rank() && !lost_.contains(Rank{r})) peers.push_back(Rank{r});
      }
    }
    if (peers.empty()) return;  // nobody is left to send anything
    std::optional<Rank> from;
    try {
      from = transport_->wait_for_any(peers, std::chrono::seconds(1), {"waiting for messages"});
      if (from) take(*from);
    } catch (const PeerLost& e) {
      lose({e.fault.peer}, std::current_exception());
    } catch (...) {
      // After anything else the stream of this peer cannot be read on.
      if (!from) return fail_everything(std::current_exception());
      lose({*from}, std::current_exception());
    }
  }
}

void Mailbox::take(Rank from) {
  Header header;
  net::receive(*transport_, from, std::as_writable_bytes(std::span(&header, 1)), {"a receive"});
  switch (header.kind) {
    case Kind::data:
      return take_data(from, header);
    case Kind::payload:
      return take_payload(from, header);
    case Kind::offer:
      return take_offer(from, header);
    case Kind::request:
    case Kind::refusal:
      return release_offered(from, header);
  }
  throw ProtocolError(fmt::format("rank {} sent a message of an unknown kind", to_int(from)));
}

// With the lock held: the receive that has waited longest for such a message.
std::optional<Mailbox::Posted> Mailbox::take_posted(Rank from, std::uint64_t tag) {
  const auto found = std::ranges::find_if(
      posted_, [&](const Posted& p) { return p.tag == tag && (!p.from || *p.from == from); });
  if (found == posted_.end()) return std::nullopt;
  Posted posted = std::move(*found);
  posted_.erase(found);
  return posted;
}

void Mailbox::take_data(Rank from, const Header& header) {
  if (header.length > kMostUnasked)
    throw ProtocolError(fmt::format("rank {} sent {} bytes unasked", to_int(from), header.length));
  std::vector<std::byte> bytes(header.length);
  if (!bytes.empty()) net::receive(*transport_, from, bytes, {"a receive"});
  std::unique_lock lock(mutex_);
  auto posted = take_posted(from, header.tag);
  if (!posted) {
    arrived_.push_back({from, header, std::move(bytes)});
    return;
  }
  lock.unlock();
  deliver(std::move(*posted), from, bytes);
}

void Mailbox::take_offer(Rank from, const Header& header) {
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    if (lost_.contains(from)) return;  // by the other thread, or by cancel(): nobody could ask for it
    auto posted = take_posted(from, header.tag);
    if (posted) {
      answer_offer(std::move(*posted), from, header, calls);
    } else {
      arrived_.push_back({from, header, {}});
    }
  }
  for (const auto& call : calls) call();
}

// With the lock held; what is to be called without it goes into `calls`.
void Mailbox::answer_offer(Posted posted, Rank from, const Header& offer, Calls& calls) {
  const bool fits = offer.length == posted.into.size();
  outbox_.push_back(
      {from, {fits ? Kind::request : Kind::refusal, 0, 0, posted.into.size(), offer.number}, {}, {}});
  to_send_.notify_one();
  if (fits) {
    requested_.emplace(std::pair(from, offer.number), std::move(posted));
  } else {
    calls.emplace_back(
        [done = std::move(posted.done),
         delivery = Delivery{other_length(offer.length, posted.into.size()), from}] { done(delivery); });
  }
}

void Mailbox::release_offered(Rank from, const Header& header) {
  Letter letter;
  {
    const std::lock_guard lock(mutex_);
    const auto found = offered_.find(header.number);
    if (found == offered_.end() || found->second.to != from)
      throw ProtocolError(
          fmt::format("rank {} asked for a message that was not offered to it", to_int(from)));
    letter = std::move(found->second);
    offered_.erase(found);
    if (header.kind == Kind::request) {
      letter.header.kind = Kind::payload;
      outbox_.push_back(std::move(letter));
      to_send_.notify_one();
      return;
    }
  }
  letter.done({other_length(letter.bytes.size(), header.length), from});
}

void Mailbox::take_payload(Rank from, const Header& header) {
  std::optional<Posted> posted;
  {
    const std::lock_guard lock(mutex_);
    const auto found = requested_.find({from, header.number});
    if (found == requested_.end())
      throw ProtocolError(fmt::format("rank {} sent a message that nobody asked for", to_int(from)));
    posted = std::move(found->second);
    requested_.erase(found);
  }
  try {
    net::receive(*transport_, from, posted->into, {"a receive"});
  } catch (...) {
    posted->done({std::current_exception(), from});
    throw;
  }
  posted->done({nullptr, from});
}

void Mailbox::lose(const std::vector<Rank>& peers, const std::exception_ptr& failure) {
  std::vector<std::pair<Done, Rank>> failed;
  {
    const std::lock_guard lock(mutex_);
    for (const Rank peer : peers) {
      if (!lost_.emplace(peer, failure).second) continue;
      const bool nobody_left = static_cast<int>(lost_.size()) == transport_->world() - 1;
      std::erase_if(posted_, [&](Posted& p) {
        if (p.from ? *p.from != peer : !nobody_left) return false;
        failed.emplace_back(std::move(p.done), peer);
        return true;
      });
      std::erase_if(offered_, [&](auto& offered) {
        if (offered.second.to != peer) return false;
        failed.emplace_back(std::move(offered.second.done), peer);
        return true;
      });
      std::erase_if(requested_, [&](auto& requested) {
        if (requested.first.first != peer) return false;
        failed.emplace_back(std::move(requested.second.done), peer);
        return true;
      });
      // An offer cannot be taken up any more.
      std::erase_if(arrived_,
                    [&](const Arrived& a) { return a.from == peer && a.header.kind == Kind::offer; });
    }
  }
  for (const auto& [done, peer] : failed) done({failure, peer});
}

// Of all peers at once: in between, a message of one could find the receive of another.
void Mailbox::fail_everything(const std::exception_ptr& failure) {
  std::vector<Rank> peers;
  for (int r = 0; r < transport_->world(); ++r) {
    if (Rank{r} != transport_->rank()) peers.push_back(Rank{r});
  }
  lose(peers, failure);
  std::list<Letter> unsent;
  {
    const std::lock_guard lock(mutex_);
    unsent.swap(outbox_);
  }
  for (const Letter& letter : unsent) {
    if (letter.done) letter.done({failure, letter.to});
  }
}

}  // namespace tutti::torch_backend
