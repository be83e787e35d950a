#include "net/segment.h"

#include <sys/stat.h>

#include <new>

#include "base/error.h"

namespace tutti::net {
namespace {

constexpr std::uint64_t kMagic = 0x32474553'49545554;  // "TUTISEG2"

constexpr std::size_t round_up(std::size_t n, std::size_t unit) {
  return (n + unit - 1) / unit * unit;
}

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Between arenas, so that a buffer's counterparts do not lie at a distance that is a large power of two:
// first-level caches that predict a way from some address bits (AMD Zen) take such addresses for one another,
// and a sum over two of them ran at a fifth of its speed.
constexpr std::size_t kStagger = std::size_t{64} << 10;

std::size_t seats_at() {
  return kPage;
}
std::size_t channels_at(int world) {
  return round_up(seats_at() + sizeof(Seat) * static_cast<std::size_t>(world), kPage);
}
std::size_t arenas_at(int world) {
  const auto w = static_cast<std::size_t>(world);
  return round_up(channels_at(world) + sizeof(Channel) * w * w, kHugePage);
}
std::size_t total_bytes(int world, std::size_t arena_bytes) {
  return arenas_at(world) + (arena_bytes + kStagger) * static_cast<std::size_t>(world);
}

}  // namespace

struct Segment::Header {
  std::uint64_t magic;
  std::int64_t world;
  std::uint64_t arena_bytes;
};

Segment::Segment(UniqueFd fd, std::size_t bytes)
    : fd_(std::move(fd)), mapping_(fd_.get(), bytes, Mapping::Access::write_shared) {}

Segment Segment::create(int world, std::size_t arena_bytes) {
  TUTTI_CHECK(world >= 1);
  arena_bytes = round_up(arena_bytes, kHugePage);
  const std::size_t bytes = total_bytes(world, arena_bytes);
  Segment segment(make_memory_file("tutti-segment", bytes), bytes);
  new (&segment.header()) Header{kMagic, world, arena_bytes};
  for (int a = 0; a < world; ++a) new (&segment.seat(Rank{a})) Seat;
  // Channels start as zeros, which is what a fresh file holds; constructing them would touch every page.
  return segment;
}

Segment Segment::open(UniqueFd fd) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw_errno("cannot read the job's shared memory");
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (bytes < kPage) throw RunError("the descriptor is no shared memory of a job: too small");
  Segment segment(std::move(fd), bytes);
  const Header& h = segment.header();
  if (h.magic != kMagic || h.world < 1 || bytes != total_bytes(segment.world(), h.arena_bytes)) {
    throw RunError("the descriptor is no shared memory of a job, or of another version");
  }
  return segment;
}

Segment::Header& Segment::header() const {
  return *reinterpret_cast<Header*>(mapping_.bytes().data());
}

int Segment::world() const {
  return static_cast<int>(header().world);
}

Seat& Segment::seat(Rank rank) const {
  return reinterpret_cast<Seat*>(mapping_.bytes().data() + seats_at())[to_int(rank)];
}

Channel& Segment::channel(Rank from, Rank to) const {
  auto* channels = reinterpret_cast<Channel*>(mapping_.bytes().data() + channels_at(world()));
  return channels[to_int(from) * world() + to_int(to)];
}

std::span<std::byte> Segment::arena(Rank rank) const {
  const std::size_t bytes = header().arena_bytes;
  const std::size_t at = arenas_at(world()) + (bytes + kStagger) * static_cast<std::size_t>(to_int(rank));
  return mapping_.bytes().subspan(at, bytes);
}

}  // namespace tutti::net
