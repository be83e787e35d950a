#include "net/stream_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/process.h"

namespace tutti::net {
namespace {

constexpr std::array<std::byte, kLine> kZeros{};

// A header, a message and its padding.
std::size_t framed(std::size_t length) {
  return sizeof(FrameHeader) + (length + kLine - 1) / kLine * kLine;
}

// Long enough to cost nothing, short enough that a dead peer is noticed "at once".
constexpr auto kLivenessSlice = std::chrono::milliseconds(20);

}  // namespace

std::string Activity::text() const {
  return label.empty() ? std::string(operation) : fmt::format("{} of {}", operation, label);
}

void send(Transport& transport, Rank to, std::span<const std::byte> bytes, const Activity& doing) {
  const Outgoing out[] = {{to, bytes}};
  transport.transfer(out, {}, doing);
}

void receive(Transport& transport, Rank from, std::span<std::byte> into, const Activity& doing) {
  const Incoming in[] = {{from, into, into.size()}};
  transport.transfer({}, in, doing);
}

struct StreamTransport::Outbound {
  const Outgoing& message;
  FrameHeader header;
  std::size_t done = 0;  // of header, payload and padding together
  bool finished() const { return done == framed(message.bytes.size()); }
};

struct StreamTransport::Inbound {
  const Incoming& message;
  FrameHeader expected;
  FrameHeader header{};
  std::size_t done = 0;  // of header, payload and padding together
  bool finished() const { return done == framed(message.length); }
};

TransportOptions unpinned_options(int world, Clock::duration timeout) {
  return {.timeout = timeout,
          .own_core = static_cast<std::size_t>(world) <= allowed_cores().size(),
          .survives_peers = false,
          .board = std::make_shared<const StatusBoard>(StatusBoard::create(world))};
}

StreamTransport::StreamTransport(Rank rank, int world, TransportOptions options)
    : rank_(rank), world_(world), options_(std::move(options)), sent_(world), received_(world) {
  if (!options_.board) options_.board = std::make_shared<const StatusBoard>(StatusBoard::create(world));
  TUTTI_CHECK(world >= 1 && to_int(rank) >= 0 && to_int(rank) < world, "rank {} of {}", to_int(rank), world);
  TUTTI_CHECK(options_.job_ranks.empty() || options_.job_ranks.size() == static_cast<std::size_t>(world),
              "{} names for {} ranks", options_.job_ranks.size(), world);
}

bool StreamTransport::advance(Outbound& o) {
  const auto payload = o.message.bytes;
  Parts parts = {std::as_bytes(std::span(&o.header, 1)), payload,
                 std::span(kZeros).first(framed(payload.size()) - sizeof o.header - payload.size())};
  std::size_t skip = o.done;
  for (auto& part : parts) {
    const std::size_t n = std::min(skip, part.size());
    part = part.subspan(n);
    skip -= n;
  }
  const std::size_t moved = put(o.message.to, parts);
  o.done += moved;
  return moved > 0;
}

void StreamTransport::check_header(const Inbound& i, const Activity& doing) const {
  if (i.header.magic == i.expected.magic && i.header.sequence == i.expected.sequence &&
      i.header.length == i.expected.length) {
    return;
  }
  throw ProtocolError(
      fmt::format("rank {}: rank {} sent message {} of {} bytes in {}, expected message {} of {} bytes",
                  to_int(in_job(rank_)), to_int(in_job(i.message.from)), i.header.sequence, i.header.length,
                  doing.text(), i.expected.sequence, i.expected.length));
}

bool StreamTransport::advance(Inbound& i, const Activity& doing) {
  const std::size_t before = i.done;
  if (i.done < sizeof i.header) {
    const auto header = std::as_writable_bytes(std::span(&i.header, 1));
    i.done += take(i.message.from, header.subspan(i.done));
    if (i.done < sizeof i.header) return i.done != before;
    check_header(i, doing);
  }
  const auto window = i.message.into;
  const std::size_t end = sizeof i.header + i.message.length;
  while (i.done < end) {
    const std::size_t offset = i.done - sizeof i.header;
    const std::size_t in_window = i.message.consume ? offset % window.size() : offset;
    const std::size_t room = std::min(window.size() - in_window, i.message.length - offset);
    const std::size_t n = take(i.message.from, window.subspan(in_window, room));
    i.done += n;
    if (i.message.consume && (n == room)) i.message.consume(offset - in_window, window.first(in_window + n));
    if (n < room) return i.done != before;
    if (i.message.consume) return true;  // let the other direction have its turn
  }
  if (!i.finished()) {
    std::array<std::byte, kLine> padding;
    i.done += take(i.message.from, std::span(padding).first(framed(i.message.length) - i.done));
  }
  return i.done != before;
}

void StreamTransport::check_cancelled(const Activity& doing) const {
  if (cancelled())
    throw RunError(fmt::format("rank {}: {} was cancelled", to_int(in_job(rank_)), doing.text()));
}

Clock::duration StreamTransport::check_wait(Rank peer, std::optional<Rank> lost, Wait& wait,
                                            const Activity& doing) const {
  check_cancelled(doing);
  const bool over = wait.stall.over();
  if (lost) throw PeerLost({in_job(rank_), in_job(*lost), doing.text(), wait.stall.standing_ms()});
  if (over) throw Timeout({in_job(rank_), in_job(peer), doing.text(), wait.stall.standing_ms()});
  return std::min<Clock::duration>(wait.stall.left(), kLivenessSlice);
}

void StreamTransport::transfer(std::span<const Outgoing> out, std::span<const Incoming> in,
                               const Activity& doing) {
  check_cancelled(doing);
  std::vector<Outbound> outbound;
  std::vector<Inbound> inbound;
  outbound.reserve(out.size());
  inbound.reserve(in.size());
  for (const Outgoing& m : out) {
    outbound.push_back(
        {m, {.sequence = sent_.at(static_cast<std::size_t>(to_int(m.to)))++, .length = m.bytes.size()}});
  }
  for (const Incoming& m : in) {
    TUTTI_CHECK(m.consume ? !m.into.empty() || m.length == 0 : m.into.size() == m.length);
    inbound.push_back(
        {m, {.sequence = received_.at(static_cast<std::size_t>(to_int(m.from)))++, .length = m.length}});
  }

  const auto try_all = [&] {
    bool moved = false;
    for (Outbound& o : outbound) moved |= !o.finished() && advance(o);
    for (Inbound& i : inbound) moved |= !i.finished() && advance(i, doing);
    return moved;
  };
  const auto unfinished = [](const auto& message) { return !message.finished(); };
  std::optional<Wait> waiting;  // since the last byte moved, once that took longer than a spin
  while (std::ranges::any_of(outbound, unfinished) || std::ranges::any_of(inbound, unfinished)) {
    // Trying is the cheapest way of asking whether something can move.
    if (spin_until(try_all)) {
      note_progress();
      waiting.reset();
      continue;
    }
    Interest interest;
    for (const Outbound& o : outbound) {
      if (!o.finished()) interest.to_write.push_back(o.message.to);
    }
    for (const Inbound& i : inbound) {
      if (!i.finished()) interest.to_read.push_back(i.message.from);
    }
    // Asking after the peers costs system calls: only when a first wait brought nothing.
    auto at_most = std::min<Clock::duration>(options_.timeout, kLivenessSlice);
    const Rank blamed = interest.to_read.empty() ? interest.to_write.front() : interest.to_read.front();
    if (waiting) {
      at_most = check_wait(blamed, lost_peer(interest), *waiting, doing);
    } else {
      waiting.emplace(*this);
    }
    wait(interest, at_most);
  }
}

std::optional<Rank> StreamTransport::wait_for_any(std::span<const Rank> peers, Clock::duration at_most,
                                                  const Activity& doing) {
  check_cancelled(doing);
  const auto since = Clock::now();
  const std::size_t first =
      turn_.fetch_add(1, std::memory_order_relaxed) % std::max<std::size_t>(1, peers.size());
  std::optional<Rank> found;
  const auto look = [&] {
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const Rank peer = peers[(first + i) % peers.size()];
      if (!readable(peer)) continue;
      found = peer;
      return true;
    }
    return false;
  };
  const Interest interest{.to_read = {peers.begin(), peers.end()}, .to_write = {}};
  std::optional<Waiting> shown;
  while (!spin_until(look)) {
    check_cancelled(doing);
    const auto waited = Clock::now() - since;
    if (const auto lost = lost_peer(interest)) {
      throw PeerLost({in_job(rank_), in_job(*lost), doing.text(),
                      std::chrono::duration_cast<std::chrono::milliseconds>(waited)});
    }
    if (waited >= at_most) return std::nullopt;
    if (!shown) shown.emplace(board(), in_job(rank_));
    wait(interest, std::min<Clock::duration>(at_most - waited, kLivenessSlice));
  }
  return found;
}

void StreamTransport::cancel() {
  cancelled_.store(true, std::memory_order_relaxed);
}

}  // namespace tutti::net
