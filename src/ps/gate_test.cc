#include "ps/gate.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"

namespace tutti::ps {
namespace {

Deadline soon() {
  return Deadline::in(std::chrono::milliseconds(50));
}

TEST(Gate, WriterWaitsForAReaderAndNamesOneThatStandsStill) {
  const auto board = net::StatusBoard::create(200);
  Gate gate;
  const ReadLock reader(gate, Rank{130}, Rank{199}, soon());
  try {
    const WriteLock writer(gate, Rank{199}, board, soon());
    ADD_FAILURE() << "a reader is inside";
  } catch (const Timeout& e) {
    EXPECT_EQ(e.fault.peer, Rank{130});
    EXPECT_EQ(e.fault.rank, Rank{199});
  }
  EXPECT_EQ(gate.writer.load(), 0U) << "whoever gives up lets the readers in again";
}

TEST(Gate, WriterDoesNotWaitForAReaderThatTheJobHasDropped) {
  const auto board = net::StatusBoard::create(4);
  Gate gate;
  gate.readers[0].store(0b0110);  // ranks 1 and 2 were killed while they read
  board.drop(Rank{1});
  EXPECT_THROW(WriteLock(gate, Rank{3}, board, soon()), Timeout) << "nobody has dropped rank 2";
  board.drop(Rank{2});
  const WriteLock writer(gate, Rank{3}, board, soon());
  EXPECT_EQ(gate.readers[0].load(), 0U);
}

TEST(Gate, ReadersNeverSeeHalfAnUpdate) {
  const auto board = net::StatusBoard::create(3);
  Gate gate;
  std::int64_t a = 0;
  std::int64_t b = 0;
  constexpr int kTimes = 2000;
  int torn = 0;
  std::vector<std::thread> readers;
  std::array<int, 2> seen{};
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] {
      for (int i = 0; i < kTimes; ++i) {
        const ReadLock lock(gate, Rank{r}, Rank{2}, Deadline::in(std::chrono::seconds(60)));
        seen[static_cast<std::size_t>(r)] += a == b ? 0 : 1;
      }
    });
  }
  for (int i = 0; i < kTimes; ++i) {
    const WriteLock lock(gate, Rank{2}, board, Deadline::in(std::chrono::seconds(60)));
    ++a;
    ++b;
  }
  for (auto& r : readers) r.join();
  torn = seen[0] + seen[1];
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(a, kTimes);
}

}  // namespace
}  // namespace tutti::ps
