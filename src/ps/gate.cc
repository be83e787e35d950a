#include "ps/gate.h"

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

// Each side shows itself before it looks for the other, in one order for all threads: at least one sees the
// other.
ReadLock::ReadLock(Gate& gate, Rank self, Rank writer, Deadline deadline) : gate_(gate) {
  while (true) {
    gate_.readers.fetch_add(1);
    if (gate_.writer.load() == 0) return;
    gate_.readers.fetch_sub(1);
    if (!yield_until([&] { return gate_.writer.load() == 0; }, deadline)) {
      throw Timeout({self, writer, "the end of an update", deadline.waited()});
    }
  }
}

WriteLock::WriteLock(Gate& gate, Deadline deadline) : gate_(gate) {
  gate_.writer.store(1);
  if (yield_until([&] { return gate_.readers.load() == 0; }, deadline)) return;
  gate_.writer.store(0);
  throw RunError("a worker stands still in the middle of reading parameters");
}

}  // namespace tutti::ps
