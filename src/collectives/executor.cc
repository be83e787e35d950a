#include "collectives/executor.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tutti::collectives {
namespace {

// What arrives is combined in windows of this size at most: large enough for few calls, small enough for the
// cache.
constexpr std::size_t kWindow = 1 << 20;

void combine_at(const Work& work, const Chunk& chunk, std::size_t offset, std::span<const std::byte> window) {
  const auto into = bytes_of(work.buffer, chunk).subspan(offset, window.size());
  combine(work.buffer.type, work.op, into.data(), window.data(), window.size() / size_of(work.buffer.type));
}

std::string text_of(const net::Announcement& a) {
  const auto byte = [&](int n) { return static_cast<int>(a.what >> (8 * n) & 0xff); };
  return fmt::format("{} of {} {} ({}, {}, root {}, at byte {})", name_of(static_cast<Operation>(byte(0))),
                     a.count, name_of(static_cast<DType>(byte(2))), name_of(static_cast<ReduceOp>(byte(3))),
                     static_cast<std::size_t>(byte(1)) < algorithms().size()
                         ? name_of(static_cast<Algorithm>(byte(1)))
                         : "?",
                     a.what >> 32, a.place);
}

// Messages that are combined into one place, several at once, must not be combined in the order of their
// arrival, which differs from run to run; nor may one be combined with what is being sent (rule 3). They are
// received into scratch memory and combined in the order listed.
bool needs_scratch(const Round& round) {
  const auto overlaps_a_send = [&](const Receive& r) {
    return r.combine &&
           std::ranges::any_of(round.sends, [&](const Send& s) { return overlap(r.chunk, s.chunk); });
  };
  return std::ranges::count_if(round.receives, &Receive::combine) > 1 ||
         std::ranges::any_of(round.receives, overlaps_a_send);
}

void run_round_in_scratch(net::Transport& transport, const Work& work, const Round& round,
                          std::span<const net::Outgoing> out, std::vector<std::byte>& scratch) {
  std::size_t need = 0;
  for (const Receive& r : round.receives) need += bytes_of(work.buffer, r.chunk).size();
  if (scratch.size() < need) scratch.resize(need);
  std::vector<net::Incoming> in;
  std::size_t at = 0;
  for (const Receive& r : round.receives) {
    const auto whole = bytes_of(work.buffer, r.chunk);
    const auto into = r.combine ? std::span(scratch).subspan(at, whole.size()) : whole;
    in.push_back({r.peer, into, into.size()});
    at += whole.size();
  }
  transport.transfer(out, in, work.doing);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (round.receives[i].combine) combine_at(work, round.receives[i].chunk, 0, in[i].into);
  }
}

}  // namespace

net::Announcement make_announcement(Operation operation, Algorithm algorithm, const Buffer& buffer,
                                    ReduceOp op, Rank root, std::size_t place) {
  const auto byte = [](auto value, int n) { return static_cast<std::uint64_t>(value) << (8 * n); };
  return {byte(operation, 0) | byte(algorithm, 1) | byte(buffer.type, 2) | byte(op, 3) | byte(root, 4),
          buffer.count, place};
}

void run_by_messages(net::Transport& transport, const Work& work, std::vector<std::byte>& scratch) {
  for (const Round& round : work.schedule.rounds) {
    std::vector<net::Outgoing> out;
    for (const Send& s : round.sends) out.push_back({s.peer, bytes_of(work.buffer, s.chunk)});
    if (needs_scratch(round)) {
      run_round_in_scratch(transport, work, round, out, scratch);
      continue;
    }
    if (scratch.size() < kWindow) scratch.resize(kWindow);
    std::vector<net::Incoming> in;
    for (const Receive& r : round.receives) {
      const auto whole = bytes_of(work.buffer, r.chunk);
      if (!r.combine) {
        in.push_back({r.peer, whole, whole.size()});
        continue;
      }
      const auto window = std::span(scratch).first(kWindow);
      in.push_back({r.peer, window, whole.size(), [&](std::size_t offset, std::span<const std::byte> window) {
                      combine_at(work, r.chunk, offset, window);
                    }});
    }
    transport.transfer(out, in, work.doing);
  }
}

std::uint64_t begin_together(const WorkInPlace& work, std::uint64_t clock) {
  work.memory.announce(work.number, work.announcement);
  work.memory.advance(++clock);  // what the buffer holds may be read
  for (int r = 0; r < work.world; ++r) {
    if (Rank{r} == work.self) continue;
    work.memory.await(Rank{r}, clock, work.doing);
    const auto theirs = work.memory.announced(Rank{r}, work.number);
    if (theirs == work.announcement) [[likely]]
      continue;
    throw ProtocolError(fmt::format("ranks differ: rank {} has {}, rank {} has {}",
                                    to_int(work.memory.in_job(work.self)), text_of(work.announcement),
                                    to_int(work.memory.in_job(Rank{r})), text_of(theirs)));
  }
  return clock;
}

std::uint64_t run_in_place(const WorkInPlace& work, std::uint64_t clock) {
  net::PeerMemory& memory = work.memory;
  clock = begin_together(work, clock);
  for (const Round& round : work.schedule.rounds) {
    for (const Receive& r : round.receives) {
      memory.await(r.peer, clock, work.doing);
      Buffer theirs = work.buffer;
      theirs.data = memory.arena(r.peer).data() + work.announcement.place;
      const auto from = bytes_of(theirs, r.chunk);
      if (r.combine) {
        combine_at(work, r.chunk, 0, from);
      } else {
        std::memcpy(bytes_of(work.buffer, r.chunk).data(), from.data(), from.size());
      }
    }
    memory.advance(++clock);
    for (const Send& s : round.sends) memory.await(s.peer, clock, work.doing);
  }
  return clock;
}

}  // namespace tutti::collectives
