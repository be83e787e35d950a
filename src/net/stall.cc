#include "net/stall.h"

#include <algorithm>

namespace tutti::net {
namespace {

// Several times as long as any wait sleeps before it asks.
constexpr auto kLongestSlice = std::chrono::seconds(1);

}  // namespace

Stall::Stall(const StatusBoard& board, Clock::duration timeout)
    : board_(board), timeout_(timeout), seen_(board.progress_of_all()), asked_(Clock::now()) {}

bool Stall::over() {
  const auto now = Clock::now();
  const std::uint64_t progress = board_.progress_of_all();
  if (progress != seen_) {
    seen_ = progress;
    standing_ = {};
  } else {
    standing_ += std::min<Clock::duration>(now - asked_, kLongestSlice);
  }
  asked_ = now;
  return standing_ >= timeout_;
}

}  // namespace tutti::net
