#include "net/segment_transport.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tutti::net {
namespace {

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, Clock::duration at_most) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(at_most).count();
  const timespec limit{ns / 1'000'000'000, ns % 1'000'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

std::vector<Rank> all_ranks(int world) {
  std::vector<Rank> ranks;
  for (int r = 0; r < world; ++r) ranks.push_back(Rank{r});
  return ranks;
}

}  // namespace

SegmentTransport::SegmentTransport(std::shared_ptr<const Segment> segment, Rank rank,
                                   const TransportOptions& options)
    : StreamTransport(rank, segment->world(), options),
      segment_(std::move(segment)),
      seat_(segment_->seat(rank)),
      pidfds_(static_cast<std::size_t>(segment_->world())) {
  take_seat();
}

SegmentTransport::~SegmentTransport() {
  seat_.state.store(SeatState::left);
  ring_all();
}

void SegmentTransport::take_seat() {
  std::int32_t nobody = 0;
  if (!seat_.pid.compare_exchange_strong(nobody, ::getpid())) {
    throw RunError(fmt::format("rank {} is in this job already", to_int(in_job(rank()))));
  }
  seat_.state.store(SeatState::taken);
  ring_all();
  note_progress();
  const Activity doing{"joining the job"};
  Wait waiting(*this, time_to_start());
  for (const Rank peer : all_ranks(world())) {
    const Seat& seat = segment_->seat(peer);
    const auto there = [&] { return seat.state.load() != SeatState::empty; };
    while (!there()) sleep_until(there, check_wait(peer, std::nullopt, waiting, doing));
    const int pid = seat.pid.load();
    // A process that died since shows as gone when we first ask; a thread of this process says so itself.
    if (pid != ::getpid()) {
      pidfds_[static_cast<std::size_t>(to_int(peer))] =
          UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    }
  }
}

// Dekker's handshake: the sleeper counts itself, then looks; the changer changes, then looks for sleepers.
// With a full fence between on both sides at least one of them sees the other.
void SegmentTransport::ring(Rank whom) const {
  Seat& seat = segment_->seat(whom);
  if (seat.sleepers.load(std::memory_order_seq_cst) == 0) return;
  seat.bell.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(seat.bell);
}

void SegmentTransport::ring_all() const {
  for (const Rank r : all_ranks(world())) ring(r);
}

template <typename Ready>
void SegmentTransport::sleep_until(const Ready& ready, Clock::duration at_most) const {
  seat_.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = seat_.bell.load(std::memory_order_seq_cst);
  if (!ready() && !cancelled()) futex_wait(seat_.bell, seen, at_most);
  seat_.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

bool SegmentTransport::left(Rank peer) const {
  return segment_->seat(peer).state.load() == SeatState::left;
}

bool SegmentTransport::died(Rank peer) const {
  const UniqueFd& fd = pidfds_[static_cast<std::size_t>(to_int(peer))];
  if (!fd) return segment_->seat(peer).pid.load() != ::getpid();
  pollfd p{fd.get(), POLLIN, 0};
  // Asked in this order: who leaves first says so and then ends.
  return ::poll(&p, 1, 0) == 1 && !left(peer);
}

bool SegmentTransport::gone(Rank peer) const {
  return peer != rank() && (died(peer) || left(peer));
}

// Who is waited for may be waiting for another: a rank that died ends the operation for all, and is the one
// to name.
std::optional<Rank> SegmentTransport::killed_peer() const {
  if (survives_peers()) return std::nullopt;
  for (const Rank r : all_ranks(world())) {
    if (r != rank() && died(r)) return r;
  }
  return std::nullopt;
}

void SegmentTransport::advance(std::uint64_t count) {
  seat_.progress.store(count, std::memory_order_seq_cst);
  for (int r = 0; r < world(); ++r) {
    if (Rank{r} != rank()) ring(Rank{r});
  }
}

void SegmentTransport::await(Rank peer, std::uint64_t count, const Activity& doing) {
  check_cancelled(doing);
  const Seat& seat = segment_->seat(peer);
  const auto reached = [&] { return seat.progress.load(std::memory_order_seq_cst) >= count; };
  if (spin_until(reached)) return note_progress();
  Wait waiting(*this);
  while (!reached()) {
    std::optional<Rank> lost = killed_peer();
    if (!lost && gone(peer)) lost = peer;
    if (lost && reached()) return;
    sleep_until(reached, check_wait(peer, lost, waiting, doing));
  }
  note_progress();
}

// advance() makes the words seen, and await() sees them: here nothing is ordered.
void SegmentTransport::announce(std::uint64_t number, const Announcement& next) {
  // Works repeat. A store that changes nothing would still take the line from those who wait on it.
  if (announced(rank(), number) == next) return;
  Seat::Work& work = seat_.works[number % 2];
  work.what.store(next.what, std::memory_order_relaxed);
  work.count.store(next.count, std::memory_order_relaxed);
  work.place.store(next.place, std::memory_order_relaxed);
}

Announcement SegmentTransport::announced(Rank peer, std::uint64_t number) {
  const Seat::Work& work = segment_->seat(peer).works[number % 2];
  return {work.what.load(std::memory_order_relaxed), work.count.load(std::memory_order_relaxed),
          work.place.load(std::memory_order_relaxed)};
}

std::size_t SegmentTransport::put(Rank to, const Parts& parts) {
  Channel& channel = segment_->channel(rank(), to);
  const std::uint64_t before = channel.written.load(std::memory_order_relaxed);
  const std::uint64_t taken = channel.taken.load(std::memory_order_acquire);
  std::uint64_t written = before;
  for (const auto bytes : parts) {
    const std::size_t n =
        std::min(bytes.size(), Channel::kCapacity - static_cast<std::size_t>(written - taken));
    const std::size_t at = written % Channel::kCapacity;
    const std::size_t first = std::min(n, Channel::kCapacity - at);
    if (first > 0) std::memcpy(channel.ring + at, bytes.data(), first);
    if (n > first) std::memcpy(channel.ring, bytes.data() + first, n - first);
    written += n;
  }
  if (written == before) return 0;
  channel.written.store(written, std::memory_order_seq_cst);
  ring(to);
  return static_cast<std::size_t>(written - before);
}

std::size_t SegmentTransport::take(Rank from, std::span<std::byte> into) {
  Channel& channel = segment_->channel(from, rank());
  const std::uint64_t taken = channel.taken.load(std::memory_order_relaxed);
  const std::uint64_t written = channel.written.load(std::memory_order_acquire);
  const std::size_t n = std::min(into.size(), static_cast<std::size_t>(written - taken));
  if (n == 0) return 0;
  const std::size_t at = taken % Channel::kCapacity;
  const std::size_t first = std::min(n, Channel::kCapacity - at);
  std::memcpy(into.data(), channel.ring + at, first);
  std::memcpy(into.data() + first, channel.ring, n - first);
  channel.taken.store(taken + n, std::memory_order_seq_cst);
  ring(from);
  return n;
}

bool SegmentTransport::readable(Rank from) {
  const Channel& c = segment_->channel(from, rank());
  return c.written.load(std::memory_order_seq_cst) != c.taken.load(std::memory_order_relaxed);
}

void SegmentTransport::wait(const Interest& interest, Clock::duration at_most) {
  const auto ready = [&] {
    if (std::ranges::any_of(interest.to_read, [this](Rank r) { return readable(r); })) return true;
    return std::ranges::any_of(interest.to_write, [this](Rank r) {
      const Channel& c = segment_->channel(rank(), r);
      const auto used = c.written.load(std::memory_order_relaxed) - c.taken.load(std::memory_order_seq_cst);
      return used < Channel::kCapacity;
    });
  };
  sleep_until(ready, at_most);
}

std::optional<Rank> SegmentTransport::lost_peer(const Interest& interest) {
  for (const Rank r : interest.to_read) {
    const Channel& c = segment_->channel(r, rank());
    // What a peer wrote before it left still counts.
    if (gone(r) && c.written.load() == c.taken.load()) return r;
  }
  for (const Rank r : interest.to_write) {
    if (gone(r)) return r;
  }
  return killed_peer();
}

void SegmentTransport::cancel() {
  StreamTransport::cancel();
  seat_.bell.fetch_add(1);
  futex_wake_all(seat_.bell);
}

}  // namespace tutti::net
