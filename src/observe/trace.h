// Where the time of a step goes, as spans that Perfetto and chrome://tracing open.
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/rank.h"

namespace tutti::observe {

// A lane of a rank's picture.
enum class Lane { compute, exchange, waiting };

// Thread-safe. A disabled trace costs one branch a span.
class Trace {
 public:
  Trace(bool enabled, Rank rank) : enabled_(enabled), rank_(rank) {}

  void add(Lane lane, std::string name, Clock::time_point begin, Clock::time_point end);

  // This rank's spans as an array of trace events; microseconds on the host's steady clock.
  nlohmann::json events() const;

 private:
  struct Span {
    Lane lane;
    std::string name;
    Clock::time_point begin;
    Clock::time_point end;
  };

  bool enabled_;
  Rank rank_;
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

// One trace file of all ranks' arrays, moved so that it starts at zero.
nlohmann::json join_traces(const std::vector<nlohmann::json>& ranks);

}  // namespace tutti::observe
