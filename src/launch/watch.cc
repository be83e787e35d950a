#include "launch/watch.h"

#include <fmt/format.h>

namespace tutti::launch {
namespace {

double seconds(Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

std::optional<Finding> Watch::look(const Vitals& now, Clock::duration passed) {
  const bool beats = now.beats != last_.beats;
  const bool beating = now.beats > 0 && !now.signed_off;
  // Before its first beat a process says nothing about its work either.
  const bool gets_on = now.progress != last_.progress || now.waiting || !beating || last_.beats == 0;
  // Who signs off has so long to end as it had to begin.
  const bool changed = beats || now.signed_off != last_.signed_off;
  silent_ = changed ? Clock::duration::zero() : silent_ + passed;
  standing_ = gets_on ? Clock::duration::zero() : standing_ + passed;
  last_ = now;

  if (silent_ >= (beating ? limits_.heartbeat : limits_.start)) {
    const char* text = now.signed_off ? "did not end for {:.1f} s after its work was done"
                       : beating      ? "showed no life for {:.1f} s"
                                      : "showed no life in the {:.1f} s since it was started";
    return Finding{Finding::Kind::lost, fmt::format(fmt::runtime(text), seconds(silent_))};
  }
  if (standing_ >= limits_.progress) {
    return Finding{Finding::Kind::stuck, fmt::format("made no progress for {:.1f} s", seconds(standing_))};
  }
  return std::nullopt;
}

void Watch::excuse() {
  silent_ = {};
  standing_ = {};
}

std::string describe(const Finding& finding, bool stopped, const std::string& doing) {
  std::string text = finding.text + (stopped ? " (its process is stopped)" : "");
  if (doing.empty()) return text;
  return text + (finding.kind == Finding::Kind::stuck ? "; it says: " : "; it was ") + doing;
}

}  // namespace tutti::launch
