#include "ps/gate.h"

#include <bit>
#include <thread>

#include "base/error.h"

namespace tutti::ps {
namespace {

template <typename Done>
bool yield_until(const Done& done, Deadline deadline) {
  while (!done()) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

// Each side shows itself before it looks for the other. Stores and loads are sequentially consistent, so they
// have one order for all threads, and at least one side sees the other. With acquire and release both could
// look before the other's store is seen, and a piece would be written while it is read.
ReadLock::ReadLock(Gate& gate, Rank self, Rank writer, Deadline deadline)
    : gate_(gate),
      word_(static_cast<std::size_t>(to_int(self)) / 64),
      bit_(std::uint64_t{1} << (static_cast<unsigned>(to_int(self)) % 64)) {
  while (true) {
    gate_.readers[word_].fetch_or(bit_);
    if (gate_.writer.load() == 0) return;
    leave();
    if (!yield_until([&] { return gate_.writer.load() == 0; }, deadline)) {
      throw Timeout({self, writer, "the end of an update", deadline.waited()});
    }
  }
}

WriteLock::WriteLock(Gate& gate, Rank self, const net::StatusBoard& board, Deadline deadline) : gate_(gate) {
  gate_.writer.store(1);
  for (std::size_t w = 0; w < gate_.readers.size(); ++w) {
    auto& word = gate_.readers[w];
    const auto lowest = [w](std::uint64_t bits) {
      return Rank{static_cast<int>(w) * 64 + std::countr_zero(bits)};
    };
    std::uint64_t seen = 0;  // readers come and go meanwhile: each look is at one number
    const auto empty = [&] {
      seen = word.load();
      for (std::uint64_t rest = seen; rest != 0; rest &= rest - 1) {
        const Rank reader = lowest(rest);
        if (to_int(reader) < board.ranks() && board.dropped(reader)) word.fetch_and(~(rest & -rest));
      }
      return seen == 0;
    };
    if (yield_until(empty, deadline)) continue;
    gate_.writer.store(0);
    throw Timeout({self, lowest(seen), "the end of reading parameters", deadline.waited()});
  }
}

}  // namespace tutti::ps
