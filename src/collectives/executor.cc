#include "collectives/executor.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tutti::collectives {
namespace {

// What arrives is combined in pieces of at most this size: large enough for few calls, small enough for the
// cache.
constexpr std::size_t kWindow = 1 << 20;

std::span<std::byte> bytes_of(const Buffer& buffer, const Chunk& chunk) {
  const std::size_t size = size_of(buffer.type);
  return {static_cast<std::byte*>(buffer.data) + chunk.first * size, chunk.count * size};
}

void combine_at(const Work& work, const Chunk& chunk, std::size_t offset, std::span<const std::byte> piece) {
  const auto into = bytes_of(work.buffer, chunk).subspan(offset, piece.size());
  combine(work.buffer.type, work.op, into.data(), piece.data(), piece.size() / size_of(work.buffer.type));
}

std::size_t offset_in_arena(net::PeerMemory& memory, Rank self, const Buffer& buffer) {
  return static_cast<std::size_t>(static_cast<std::byte*>(buffer.data) - memory.arena(self).data());
}

// Messages that are combined into one place, several at once, must not be combined in the order of their
// arrival, which differs from run to run. They are received apart and combined in the order listed.
void run_round_apart(net::Transport& transport, const Work& work, const Round& round,
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

void run_by_messages(net::Transport& transport, const Work& work, std::vector<std::byte>& scratch) {
  for (const Round& round : work.schedule.rounds) {
    std::vector<net::Outgoing> out;
    for (const Send& s : round.sends) out.push_back({s.peer, bytes_of(work.buffer, s.chunk)});
    const auto combining = std::ranges::count_if(round.receives, &Receive::combine);
    if (combining > 1) {
      run_round_apart(transport, work, round, out, scratch);
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
      in.push_back({r.peer, window, whole.size(), [&](std::size_t offset, std::span<const std::byte> piece) {
                      combine_at(work, r.chunk, offset, piece);
                    }});
    }
    transport.transfer(out, in, work.doing);
  }
}

void all_reduce_by_swap(net::Transport& transport, const Work& work, std::vector<std::byte>& scratch) {
  const Rank peer{1 - to_int(transport.rank())};
  const Chunk all{0, work.buffer.count};
  const auto mine = bytes_of(work.buffer, all);
  if (scratch.size() < mine.size()) scratch.resize(mine.size());
  const auto theirs = std::span(scratch).first(mine.size());
  const net::Outgoing out[] = {{peer, mine}};
  const net::Incoming in[] = {{peer, theirs, theirs.size()}};
  transport.transfer(out, in, work.doing);
  combine_at(work, all, 0, theirs);
}

std::uint64_t run_in_place(net::PeerMemory& memory, Rank self, const Work& work, std::uint64_t clock) {
  const std::size_t offset = offset_in_arena(memory, self, work.buffer);
  memory.advance(++clock);  // here: what the buffer holds may be read
  for (const Round& round : work.schedule.rounds) {
    for (const Receive& r : round.receives) {
      memory.await(r.peer, clock, work.doing);
      Buffer theirs = work.buffer;
      theirs.data = memory.arena(r.peer).data() + offset;
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

std::uint64_t all_reduce_one_pass(net::PeerMemory& memory, Rank self, int world, const Work& work,
                                  std::uint64_t clock) {
  const std::size_t offset = offset_in_arena(memory, self, work.buffer);
  const Chunk part = equal_part(work.buffer.count, world, to_int(self));
  const auto await_all = [&](std::uint64_t count) {
    for (int r = 0; r < world; ++r) {
      if (Rank{r} != self) memory.await(Rank{r}, count, work.doing);
    }
  };
  memory.advance(++clock);
  await_all(clock);
  if (part.count > 0) {
    std::vector<void*> buffers;
    for (int r = 0; r < world; ++r) {
      buffers.push_back(memory.arena(Rank{r}).data() + offset + part.first * size_of(work.buffer.type));
    }
    combine_across(work.buffer.type, work.op, buffers, part.count, work.op == ReduceOp::average ? world : 1);
  }
  memory.advance(++clock);
  await_all(clock);
  return clock;
}

}  // namespace tutti::collectives
