// Who of a job is lost and who is stuck: a pure judgement over what a process shows of itself.
//
// A process shows two things on the status board (net/status_board.h): that it lives, by a thread that does
// nothing else, and that it gets on with its work. One that shows no life is lost, however short its work
// may be. One that lives and does not get on is stuck, unless it waits for others: then whoever it waits for
// is to blame, and its own deadline says who.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "net/status_board.h"

namespace tutti::launch {

using net::Vitals;

struct WatchLimits {
  Clock::duration heartbeat = std::chrono::seconds(2);
  Clock::duration progress = std::chrono::seconds(30);
  Clock::duration start = std::chrono::seconds(30);  // until the first beat; also from the last to the end
};

struct Finding {
  enum class Kind { lost, stuck };
  Kind kind = Kind::lost;
  std::string text;  // "showed no life for 2.1 s"
};

// One process's.
class Watch {
 public:
  explicit Watch(const WatchLimits& limits) : limits_(limits) {}

  // What is wrong, if anything. `passed` is the time since the glance before, as far as it counts: a launcher
  // that did not run for a while has not watched meanwhile.
  std::optional<Finding> look(const Vitals& now, Clock::duration passed);

  // Begins anew: there is an excuse.
  void excuse();

 private:
  WatchLimits limits_;
  Vitals last_{};
  Clock::duration silent_{};    // since its last beat
  Clock::duration standing_{};  // since it got on, or waited
};

// What is said of the rank: "showed no life for 2.1 s (its process is stopped); it was computing step 17".
// `doing` are its own last words, maybe none.
std::string describe(const Finding& finding, bool stopped, const std::string& doing);

}  // namespace tutti::launch
