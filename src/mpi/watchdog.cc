#include "mpi/watchdog.h"

#include <limits>

#include "base/process.h"

namespace tutti::mpi {
namespace {

// A call that the thread sees at two glances has lasted at least this long. Most are never seen twice, and
// pay for two stores.
constexpr auto kGlance = std::chrono::milliseconds(50);

constexpr std::uint64_t kNone = 0;
// The thread watches the call, and reads what it does: the caller must not leave before it has been told.
constexpr std::uint64_t kWatched = std::numeric_limits<std::uint64_t>::max();
// The call is over, and the caller waits for the thread to let it go.
constexpr std::uint64_t kOver = kWatched - 1;

}  // namespace

Watchdog::Watchdog(Watch watch) : watch_(std::move(watch)), at_(kNone) {
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::begin(const net::Activity& doing) {
  doing_ = doing;
  at_.store(++calls_, std::memory_order_release);
}

void Watchdog::end() {
  std::uint64_t mine = calls_;
  if (at_.compare_exchange_strong(mine, kNone, std::memory_order_acq_rel)) [[likely]]
    return;
  std::unique_lock lock(mutex_);
  at_ = kOver;
  changed_.notify_all();
  changed_.wait(lock, [this] { return at_ == kNone; });
}

void Watchdog::run() {
  name_thread("watchdog");
  std::uint64_t seen = kNone;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kGlance, [this] { return stop_; })) {
    std::uint64_t now = at_.load(std::memory_order_acquire);
    const bool long_since = now != kNone && now == seen;
    seen = now;
    if (!long_since || !at_.compare_exchange_strong(now, kWatched)) continue;
    lock.unlock();
    watch_(
        [this](Clock::duration at_most) {
          std::unique_lock waiting(mutex_);
          return changed_.wait_for(waiting, at_most, [this] { return at_ == kOver; });
        },
        doing_);
    lock.lock();
    at_ = kNone;
    changed_.notify_all();
  }
}

}  // namespace tutti::mpi
