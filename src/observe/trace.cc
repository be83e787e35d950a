#include "observe/trace.h"

#include <algorithm>
#include <limits>

namespace tutti::observe {
namespace {

constexpr const char* kLaneNames[] = {"compute", "exchange", "waiting"};

double microseconds(Clock::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

nlohmann::json metadata(Rank rank, int lane, const char* kind, const std::string& name) {
  return {{"ph", "M"}, {"pid", to_int(rank)}, {"tid", lane}, {"name", kind}, {"args", {{"name", name}}}};
}

}  // namespace

void Trace::add(Lane lane, std::string name, Clock::time_point begin, Clock::time_point end) {
  if (!enabled_) return;
  const std::scoped_lock lock(mutex_);
  spans_.push_back({lane, std::move(name), begin, end});
}

nlohmann::json Trace::events() const {
  const std::scoped_lock lock(mutex_);
  auto events = nlohmann::json::array();
  events.push_back(metadata(rank_, 0, "process_name", "rank " + std::to_string(to_int(rank_))));
  for (int lane = 0; lane < static_cast<int>(std::size(kLaneNames)); ++lane) {
    events.push_back(metadata(rank_, lane, "thread_name", kLaneNames[lane]));
  }
  for (const Span& s : spans_) {
    events.push_back({{"ph", "X"},
                      {"pid", to_int(rank_)},
                      {"tid", static_cast<int>(s.lane)},
                      {"cat", kLaneNames[static_cast<int>(s.lane)]},
                      {"name", s.name},
                      {"ts", microseconds(s.begin.time_since_epoch())},
                      {"dur", microseconds(s.end - s.begin)}});
  }
  return events;
}

nlohmann::json join_traces(const std::vector<nlohmann::json>& ranks) {
  auto all = nlohmann::json::array();
  double start = std::numeric_limits<double>::max();
  for (const auto& rank : ranks) {
    for (const auto& event : rank) {
      if (event.contains("ts")) start = std::min(start, event["ts"].get<double>());
      all.push_back(event);
    }
  }
  for (auto& event : all) {
    if (event.contains("ts")) event["ts"] = event["ts"].get<double>() - start;
  }
  return {{"traceEvents", std::move(all)}, {"displayTimeUnit", "ms"}};
}

}  // namespace tutti::observe
