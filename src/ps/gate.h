// Lets many read a piece or a partition of a table, or one write it, across processes. Stands in memory
// before it; all zero is open.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/deadline.h"
#include "base/rank.h"
#include "net/status_board.h"

namespace tutti::ps {

struct alignas(64) Gate {
  static constexpr int kMostRanks = 2048;
  // A bit for each rank that reads: what a rank that was killed has left there can be told from the others'.
  std::array<std::atomic<std::uint64_t>, kMostRanks / 64> readers{};
  std::atomic<std::uint32_t> writer{0};
  // Of a partition of a table, whose rows workers read without a word to the server.
  std::atomic<std::int64_t> version{0};
  std::atomic<std::uint64_t> bytes_read{0};
};

// The gate at a place of a server's memory (ps/layout.h), and what it guards.
inline Gate& gate_at(std::span<std::byte> memory, std::size_t at) {
  return *reinterpret_cast<Gate*>(memory.data() + at);
}
inline std::span<float> values_behind(std::span<std::byte> memory, std::size_t at, std::size_t floats) {
  return {reinterpret_cast<float*>(memory.data() + at + sizeof(Gate)), floats};
}

// Each blocks until it is its turn. A holder keeps a gate for one copy or one update, so a wait is short; who
// waits past the deadline waits for a process that stands still, and Timeout names it.
class ReadLock {
 public:
  // `self` is below kMostRanks and reads what `writer` holds; one thread of a rank at a time.
  ReadLock(Gate& gate, Rank self, Rank writer, Deadline deadline);
  ~ReadLock() { leave(); }
  ReadLock(const ReadLock&) = delete;
  ReadLock& operator=(const ReadLock&) = delete;

 private:
  void leave() { gate_.readers[word_].fetch_and(~bit_); }

  Gate& gate_;
  const std::size_t word_;
  const std::uint64_t bit_;
};

// One writer a gate.
class WriteLock {
 public:
  // Does not wait for readers that the job has dropped.
  WriteLock(Gate& gate, Rank self, const net::StatusBoard& board, Deadline deadline);
  ~WriteLock() { gate_.writer.store(0); }
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;

 private:
  Gate& gate_;
};

}  // namespace tutti::ps
