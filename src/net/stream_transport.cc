#include "net/stream_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/process.h"

namespace tutti::net {
namespace {

constexpr std::array<std::byte, kLine> kZeros{};

std::string text_of(const FrameHeader& header) {
  const std::string message = fmt::format("message {} of {} bytes", header.sequence, header.length);
  return header.offset == 0 ? message : fmt::format("{}, from byte {}", message, header.offset);
}

// What must have happened on the way to a frame whose header is not the expected one. Whoever changes a
// header can make it look like another frame's; found is it in any case.
std::string_view what_happened(const FrameHeader& got, const FrameHeader& expected) {
  const auto place = [](const FrameHeader& h) { return std::pair(h.sequence, h.offset); };
  if (place(got) < place(expected)) return "it was repeated, or came late";
  if (place(got) > place(expected)) return "one before it was dropped, or comes late";
  return "it was altered, or the ranks differ in what they send";
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
  FrameHeader header;                       // of the frame under way
  std::span<const std::byte> payload = {};  // of it, as it travels
  std::size_t done = 0;                     // of its header, payload and padding together
  bool begun = false;                       // the frame: header and payload are set
  bool finished = false;                    // the message
};

struct StreamTransport::Inbound {
  const Incoming& message;
  FrameHeader expected;     // of the frame under way, but for its tag
  FrameHeader header{};     // as it came
  std::size_t payload = 0;  // how long that of the frame is
  std::size_t done = 0;     // of its header, payload and padding together
  bool open = false;        // its payload is all there, and is what was sent
  bool finished = false;    // the message
};

TransportOptions unpinned_options(int world, Clock::duration timeout) {
  return {.timeout = timeout,
          .own_core = static_cast<std::size_t>(world) <= allowed_cores().size(),
          .survives_peers = false,
          .board = std::make_shared<const StatusBoard>(StatusBoard::create(world))};
}

StreamTransport::StreamTransport(Rank rank, int world, TransportOptions options)
    : rank_(rank),
      world_(world),
      options_(std::move(options)),
      sent_(world),
      received_(world),
      seals_(world) {
  if (!options_.board) options_.board = std::make_shared<const StatusBoard>(StatusBoard::create(world));
  TUTTI_CHECK(world >= 1 && to_int(rank) >= 0 && to_int(rank) < world, "rank {} of {}", to_int(rank), world);
  TUTTI_CHECK(options_.job_ranks.empty() || options_.job_ranks.size() == static_cast<std::size_t>(world),
              "{} names for {} ranks", options_.job_ranks.size(), world);
}

void StreamTransport::protect(Rank peer, const SessionKeys& keys, Wire wire, std::size_t frame_bytes) {
  TUTTI_CHECK(wire != Wire::plain && frame_bytes > 0 && frame_bytes % kLine == 0);
  seals_.at(static_cast<std::size_t>(to_int(peer))) = std::make_unique<Seals>(keys, wire);
  frame_bytes_ = frame_bytes;
}

// Tags are made frame by frame, each when the one before it has gone to the kernel: that has enough to send
// meanwhile.
void StreamTransport::begin_frame(Outbound& o) {
  o.payload = o.message.bytes.subspan(o.header.offset);
  if (Seals* const seals = seals_of(o.message.to)) {
    o.payload = seals->outgoing.close(o.header, o.payload.first(std::min(o.payload.size(), frame_bytes_)));
  }
  o.done = 0;
  o.begun = true;
}

bool StreamTransport::advance(Outbound& o) {
  if (!o.begun) begin_frame(o);
  const std::size_t whole = framed(o.payload.size());
  Parts parts = {std::as_bytes(std::span(&o.header, 1)), o.payload,
                 std::span(kZeros).first(whole - sizeof o.header - o.payload.size())};
  std::size_t skip = o.done;
  for (auto& part : parts) {
    const std::size_t n = std::min(skip, part.size());
    part = part.subspan(n);
    skip -= n;
  }
  const std::size_t moved = put(o.message.to, parts);
  o.done += moved;
  if (o.done == whole) {
    o.header.offset += o.payload.size();
    o.finished = o.header.offset == o.message.bytes.size();
    o.begun = false;
  }
  return moved > 0;
}

void StreamTransport::check_header(const Inbound& i, const Activity& doing) const {
  if (i.header.magic == i.expected.magic && i.header.sequence == i.expected.sequence &&
      i.header.length == i.expected.length && i.header.offset == i.expected.offset) {
    return;
  }
  std::string text =
      fmt::format("rank {}: rank {} sent {} in {}, expected {}", to_int(in_job(rank_)),
                  to_int(in_job(i.message.from)), text_of(i.header), doing.text(), text_of(i.expected));
  if (const Seals* const seals = seals_of(i.message.from)) {
    text += fmt::format("; this is in the place of frame {} of the connection: {}", seals->incoming.frames(),
                        what_happened(i.header, i.expected));
  }
  throw ProtocolError(text);
}

void StreamTransport::begin_frame(Inbound& i, std::size_t offset) {
  i.expected.offset = offset;
  i.payload = i.message.length - offset;
  if (seals_of(i.message.from) != nullptr) i.payload = std::min(i.payload, frame_bytes_);
  i.done = 0;
  i.open = false;
}

// False if there is no more for now. On a plain stream a window is handed on each time it is full.
bool StreamTransport::take_payload(Inbound& i) {
  const auto window = i.message.into;
  const bool hands_on = i.message.consume && seals_of(i.message.from) == nullptr;
  // With tags, a frame is the window's content.
  const std::size_t begin = i.message.consume ? 0 : i.expected.offset;
  while (i.done < sizeof i.header + i.payload) {
    const std::size_t at = i.done - sizeof i.header;
    const std::size_t in_window = hands_on ? at % window.size() : begin + at;
    const std::size_t room = std::min(window.size() - in_window, i.payload - at);
    const std::size_t n = take(i.message.from, window.subspan(in_window, room));
    i.done += n;
    if (hands_on && n == room) i.message.consume(at - in_window, window.first(in_window + n));
    if (n < room) return false;
    if (hands_on) return i.done == sizeof i.header + i.payload;  // let the other direction have its turn
  }
  return true;
}

// The payload is there: with a tag, this is where it is verified, before anybody uses it.
void StreamTransport::open_frame(Inbound& i, const Activity& doing) {
  i.open = true;
  Seals* const seals = seals_of(i.message.from);
  if (seals == nullptr) return;
  const auto payload = i.message.into.subspan(i.message.consume ? 0 : i.expected.offset, i.payload);
  if (!seals->incoming.open(i.header, payload)) {
    throw ProtocolError(fmt::format("rank {}: frame {} from rank {} was altered on its way ({} in {})",
                                    to_int(in_job(rank_)), seals->incoming.frames() - 1,
                                    to_int(in_job(i.message.from)), text_of(i.expected), doing.text()));
  }
  if (i.message.consume && !payload.empty()) i.message.consume(i.expected.offset, payload);
}

// No tag covers the padding; it holds nothing but zeros.
void StreamTransport::take_padding(Inbound& i, const Activity& doing) {
  std::array<std::byte, kLine> padding;
  const std::size_t n = take(i.message.from, std::span(padding).first(framed(i.payload) - i.done));
  i.done += n;
  if (!std::ranges::all_of(std::span(padding).first(n), [](std::byte b) { return b == std::byte{0}; })) {
    throw ProtocolError(fmt::format("rank {}: what rank {} sent behind {} in {} are no zeros",
                                    to_int(in_job(rank_)), to_int(in_job(i.message.from)),
                                    text_of(i.expected), doing.text()));
  }
}

bool StreamTransport::advance(Inbound& i, const Activity& doing) {
  const std::size_t before = i.done;
  if (i.done < sizeof i.header) {
    const auto header = std::as_writable_bytes(std::span(&i.header, 1));
    i.done += take(i.message.from, header.subspan(i.done));
    if (i.done < sizeof i.header) return i.done != before;
    check_header(i, doing);
  }
  if (!i.open) {
    if (!take_payload(i)) return i.done != before;
    open_frame(i, doing);
  }
  if (i.done < framed(i.payload)) take_padding(i, doing);
  if (i.done == framed(i.payload)) {
    const std::size_t end = i.expected.offset + i.payload;
    i.finished = end == i.message.length;
    if (!i.finished) begin_frame(i, end);
    return true;
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
    const std::size_t least = seals_.at(static_cast<std::size_t>(to_int(m.from)))
                                  ? std::min(m.length, frame_bytes_)
                                  : std::min<std::size_t>(m.length, 1);
    TUTTI_CHECK(m.consume ? m.into.size() >= least : m.into.size() == m.length);
    inbound.push_back(
        {m, {.sequence = received_.at(static_cast<std::size_t>(to_int(m.from)))++, .length = m.length}});
    begin_frame(inbound.back(), 0);
  }

  const auto try_all = [&] {
    bool moved = false;
    for (Outbound& o : outbound) moved |= !o.finished && advance(o);
    for (Inbound& i : inbound) moved |= !i.finished && advance(i, doing);
    return moved;
  };
  const auto unfinished = [](const auto& message) { return !message.finished; };
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
      if (!o.finished) interest.to_write.push_back(o.message.to);
    }
    for (const Inbound& i : inbound) {
      if (!i.finished) interest.to_read.push_back(i.message.from);
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
