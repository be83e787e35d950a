#include "net/status_board.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <thread>

#include "base/error.h"
#include "net/stall.h"

namespace tutti::net {
namespace {

constexpr std::uint64_t kBoardMagic = 0x31445242'49545554;  // "TUTIBRD1"
constexpr std::size_t kHeaderBytes = 4096;
constexpr std::int64_t kUndecided = -1;

// How often somebody who waits at a barrier looks around.
constexpr auto kGlance = std::chrono::milliseconds(1);

}  // namespace

struct StatusBoard::Header {
  std::uint64_t magic = kBoardMagic;
  std::int64_t ranks = 0;
  std::array<std::atomic<std::uint32_t>, 3> asked{};
  std::array<std::atomic<std::int64_t>, 3> after_step{kUndecided, kUndecided, kUndecided};
  // What of it all hosts know, where there are several.
  std::array<std::atomic<std::int64_t>, 3> known_after_step{kUndecided, kUndecided, kUndecided};
  std::atomic<std::uint32_t> spans_hosts{0};
  std::atomic<std::uint32_t> shows_one_host{0};
  std::array<std::atomic<std::uint32_t>, 3> met{};
  // The last barrier whose participants are settled.
  std::atomic<std::uint32_t> settled{0};
};

struct StatusBoard::Entry {
  alignas(64) std::atomic<std::uint64_t> beats{0};
  std::atomic<std::uint64_t> progress{0};
  std::atomic<std::uint32_t> waiting{0};  // threads
  std::atomic<std::uint32_t> signed_off{0};
  std::atomic<std::uint32_t> left{0};
  std::atomic<std::uint32_t> dropped{0};
  std::atomic<std::uint32_t> barrier{0};               // that it has come to
  std::atomic<std::int64_t> part_written{kUndecided};  // the last step whose part it has written
  std::atomic<std::int64_t> part_failed{kUndecided};   // the last whose it could not
  std::atomic<std::uint32_t> takes_part{0};            // in barriers up to this one, as was settled
  // A text and how often it was written: odd while it is being written.
  alignas(64) std::atomic<std::uint32_t> writes{0};
  std::array<std::atomic<char>, kLongestText + 1> text{};
};

StatusBoard::StatusBoard(UniqueFd fd, std::size_t bytes)
    : fd_(std::move(fd)), mapping_(fd_.get(), bytes, Mapping::Access::write_shared) {}

StatusBoard StatusBoard::create(int ranks) {
  TUTTI_CHECK(ranks >= 1);
  const std::size_t bytes = kHeaderBytes + sizeof(Entry) * static_cast<std::size_t>(ranks);
  StatusBoard board(make_memory_file("tutti-status", bytes), bytes);
  auto* header = new (board.mapping_.bytes().data()) Header;
  header->ranks = ranks;
  for (int r = 0; r < ranks; ++r) new (&board.entry(Rank{r})) Entry;
  return board;
}

StatusBoard StatusBoard::open(UniqueFd fd) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw_errno("cannot read the job's status board");
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (bytes < kHeaderBytes) throw RunError("the descriptor is no status board of a job: too small");
  StatusBoard board(std::move(fd), bytes);
  const Header& h = board.header();
  if (h.magic != kBoardMagic || h.ranks < 1 ||
      bytes != kHeaderBytes + sizeof(Entry) * static_cast<std::size_t>(h.ranks)) {
    throw RunError("the descriptor is no status board of a job, or of another version");
  }
  return board;
}

StatusBoard::Header& StatusBoard::header() const {
  return *reinterpret_cast<Header*>(mapping_.bytes().data());
}

StatusBoard::Entry& StatusBoard::entry(Rank rank) const {
  return reinterpret_cast<Entry*>(mapping_.bytes().data() + kHeaderBytes)[to_int(rank)];
}

int StatusBoard::ranks() const {
  return static_cast<int>(header().ranks);
}

void StatusBoard::beat(Rank self) const {
  entry(self).beats.fetch_add(1, std::memory_order_relaxed);
}

// Not a locked addition, which would be a twentieth of a small all-reduce. Two threads of a rank at once may
// count as one; whoever looks asks only whether the count is another than before.
void StatusBoard::advance(Rank self) const {
  auto& progress = entry(self).progress;
  progress.store(progress.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// A reader that finds the count odd, or changed behind it, reads again. The text is atomic letter by letter,
// so that a race shows as a wrong count and never as undefined behaviour.
void StatusBoard::write_text(Rank rank, std::string_view text) const {
  Entry& e = entry(rank);
  const std::uint32_t before = e.writes.load(std::memory_order_relaxed);
  e.writes.store(before + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const std::size_t n = std::min(text.size(), kLongestText);
  for (std::size_t i = 0; i < n; ++i) e.text[i].store(text[i], std::memory_order_relaxed);
  e.text[n].store('\0', std::memory_order_relaxed);
  e.writes.store(before + 2, std::memory_order_release);
}

void StatusBoard::say(Rank self, std::string_view doing) const {
  write_text(self, doing);
  advance(self);
}

std::string StatusBoard::doing(Rank rank) const {
  constexpr int kTries = 100;  // a rank that was killed in the middle of a word leaves it odd for ever
  const Entry& e = entry(rank);
  std::string text;
  for (int i = 0; i < kTries; ++i) {
    const std::uint32_t before = e.writes.load(std::memory_order_acquire);
    text.clear();
    for (const auto& letter : e.text) {
      const char c = letter.load(std::memory_order_relaxed);
      if (c == '\0') break;
      text.push_back(c);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && e.writes.load(std::memory_order_relaxed) == before) break;
  }
  return text;
}

void StatusBoard::begin_wait(Rank self) const {
  entry(self).waiting.fetch_add(1, std::memory_order_relaxed);
}

void StatusBoard::end_wait(Rank self) const {
  entry(self).waiting.fetch_sub(1, std::memory_order_relaxed);
}

void StatusBoard::sign_off(Rank self) const {
  entry(self).signed_off.store(1);
}

void StatusBoard::leave(Rank self) const {
  entry(self).left.store(1);
}

Vitals StatusBoard::vitals(Rank rank) const {
  const Entry& e = entry(rank);
  return {.beats = e.beats.load(std::memory_order_relaxed),
          .progress = e.progress.load(std::memory_order_relaxed),
          .waiting = e.waiting.load(std::memory_order_relaxed) != 0,
          .signed_off = e.signed_off.load() != 0};
}

std::uint64_t StatusBoard::progress_of_all() const {
  std::uint64_t sum = 0;
  for (int r = 0; r < ranks(); ++r) sum += entry(Rank{r}).progress.load(std::memory_order_relaxed);
  return sum;
}

Shown BoardMirror::shown(Rank rank) const {
  const StatusBoard::Entry& e = board_.entry(rank);
  return {.vitals = board_.vitals(rank),
          .left = e.left.load() != 0,
          .part_written = e.part_written.load(),
          .part_failed = e.part_failed.load(),
          .doing = board_.doing(rank)};
}

void BoardMirror::show(Rank rank, const Shown& shown) const {
  StatusBoard::Entry& e = board_.entry(rank);
  if (board_.doing(rank) != shown.doing) board_.write_text(rank, shown.doing);
  e.part_written.store(shown.part_written);
  e.part_failed.store(shown.part_failed);
  e.waiting.store(shown.vitals.waiting ? 1 : 0, std::memory_order_relaxed);
  e.signed_off.store(shown.vitals.signed_off ? 1 : 0);
  e.left.store(shown.left ? 1 : 0);
  e.beats.store(shown.vitals.beats, std::memory_order_relaxed);
  e.progress.store(shown.vitals.progress, std::memory_order_relaxed);
}

void BoardMirror::span_hosts() const {
  board_.header().spans_hosts.store(1);
}

void BoardMirror::show_one_host() const {
  board_.header().shows_one_host.store(1);
}

bool BoardMirror::shows_one_host() const {
  return board_.header().shows_one_host.load() != 0;
}

void StatusBoard::drop(Rank rank) const {
  entry(rank).dropped.store(1);
}

bool StatusBoard::dropped(Rank rank) const {
  return entry(rank).dropped.load() != 0;
}

void JobRequests::ask(Request request) const {
  board_.header().asked[static_cast<std::size_t>(request)].fetch_add(1);
}

std::uint32_t JobRequests::asked(Request request) const {
  return board_.header().asked[static_cast<std::size_t>(request)].load();
}

void JobRequests::decide(Request request, std::int64_t after_step) const {
  board_.header().after_step[static_cast<std::size_t>(request)].store(after_step);
}

std::optional<std::int64_t> JobRequests::decided(Request request) const {
  const std::int64_t step = board_.header().after_step[static_cast<std::size_t>(request)].load();
  return step == kUndecided ? std::nullopt : std::optional(step);
}

void JobRequests::set_met(Request request) const {
  board_.header().met[static_cast<std::size_t>(request)].store(1);
}

bool JobRequests::met(Request request) const {
  return board_.header().met[static_cast<std::size_t>(request)].load() != 0;
}

void JobRequests::make_known(Request request, std::int64_t after_step) const {
  board_.header().known_after_step[static_cast<std::size_t>(request)].store(after_step);
}

void JobRequests::await_known(Rank self, Request request, Clock::duration timeout) const {
  auto& header = board_.header();
  const auto i = static_cast<std::size_t>(request);
  if (header.spans_hosts.load() == 0) return;
  const auto begin = Clock::now();
  while (header.known_after_step[i].load() != header.after_step[i].load()) {
    const auto waited = Clock::now() - begin;
    if (waited > timeout) {
      throw Timeout({self, self, "telling other hosts of a request",
                     std::chrono::duration_cast<std::chrono::milliseconds>(waited)});
    }
    board_.advance(self);  // it waits for the launcher, not for ranks
    std::this_thread::sleep_for(kGlance);
  }
}

void CheckpointParts::report(Rank self, std::int64_t step, bool written) const {
  auto& entry = board_.entry(self);
  (written ? entry.part_written : entry.part_failed).store(step);
}

CheckpointParts::State CheckpointParts::of(Rank rank, std::int64_t step) const {
  const auto& entry = board_.entry(rank);
  if (entry.part_failed.load() == step) return State::failed;
  return entry.part_written.load() >= step ? State::written : State::missing;
}

// Who takes part, once all that are left have come. A rank may die between two looks at it, so each would
// draw up a list of its own: the lowest that is left draws up one for all. Should it die over that, the next
// begins anew.
std::optional<std::vector<Rank>> StatusBoard::participants(Rank self, int workers,
                                                           std::uint32_t number) const {
  if (header().settled.load() < number) {
    if (first_left(*this, workers) != self) return std::nullopt;
    for (int r = 0; r < workers; ++r) {
      if (!dropped(Rank{r}) && entry(Rank{r}).barrier.load() < number) return std::nullopt;
    }
    for (int r = 0; r < workers; ++r) {
      entry(Rank{r}).takes_part.store(dropped(Rank{r}) ? 0 : number);
    }
    header().settled.store(number);
  }
  std::vector<Rank> all;
  for (int r = 0; r < workers; ++r) {
    if (entry(Rank{r}).takes_part.load() >= number) all.push_back(Rank{r});
  }
  return all;
}

std::vector<Rank> StatusBoard::barrier_of_survivors(Rank self, int workers, std::uint32_t number,
                                                    Clock::duration timeout, std::string_view what) const {
  entry(self).barrier.store(number);
  advance(self);
  const Waiting waiting(*this, self);
  Stall stall(*this, timeout);
  while (true) {
    if (auto all = participants(self, workers, number)) return *all;
    const bool over = stall.over();
    for (int r = 0; r < workers; ++r) {
      const Entry& e = entry(Rank{r});
      // Asked in this order: who comes and then leaves has come.
      const bool left = e.left.load() != 0;
      if (dropped(Rank{r}) || e.barrier.load() >= number) continue;
      if (left) throw PeerLost({self, Rank{r}, std::string(what), stall.standing_ms()});
      if (over) throw Timeout({self, Rank{r}, std::string(what), stall.standing_ms()});
    }
    // Everybody has come, but whoever settles who takes part has died, and nobody has said so.
    if (over) throw Timeout({self, first_left(*this, workers), std::string(what), stall.standing_ms()});
    std::this_thread::sleep_for(kGlance);
  }
}

std::vector<Rank> dropped(const StatusBoard& board) {
  std::vector<Rank> gone;
  for (int r = 0; r < board.ranks(); ++r) {
    if (board.dropped(Rank{r})) gone.push_back(Rank{r});
  }
  return gone;
}

Rank first_left(const StatusBoard& board, int workers) {
  int r = 0;
  while (r + 1 < workers && board.dropped(Rank{r})) ++r;
  return Rank{r};
}

}  // namespace tutti::net
