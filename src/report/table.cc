#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "observe/summary.h"

namespace tutti::report {
namespace {

constexpr const char* kForm = "{:<20} {:>7} {:>9} {:>7} {:>8} {:>8} {:>11} {:>10} {:>10} {:>9} {}\n";

// How far the repeats lie from their median: "±2 %"; "-" where there is one.
std::string spread(const Cell& c) {
  const auto all = speeds(c);
  if (all.size() < 2) return "-";
  const double far = std::max(all.back() - speed(c), speed(c) - all.front());
  return fmt::format("{:.1f} %", far / speed(c) * 100);
}

std::string row(const Cell& c, const Cell* base) {
  const auto s = c.summary.get<observe::Summary>();
  const auto accuracy = s.test.at("accuracy");
  const auto conditions = observe::conditions_of(s);
  return fmt::format(
      kForm, label_of(c), c.workers, fmt::format("{:.0f}", speed(c)), spread(c),
      base != nullptr ? fmt::format("{:.2f}x", speed(c) / speed(*base)) : "-",
      fmt::format("{:.1f}", s.step_ms.median), fmt::format("{:.2f}", s.exchange_ms),
      fmt::format("{:.2f}", s.exposed_exchange_ms),
      human_bytes(s.bytes_sent_per_worker / static_cast<std::uint64_t>(std::max<std::int64_t>(1, s.steps))),
      accuracy ? fmt::format("{:.2f} %", *accuracy * 100) : "-",
      fmt::format("{}{}{}", observe::replicas_agree(s) ? "equal" : "DIFFER", conditions.empty() ? "" : ", ",
                  conditions));
}

}  // namespace

const Cell* baseline(const std::vector<Cell>& cells, const std::string& model) {
  const auto found = std::ranges::find_if(
      cells, [&](const Cell& c) { return c.workers == 1 && c.model == model && !c.summary.is_null(); });
  return found == cells.end() ? nullptr : &*found;
}

std::string render_table(const std::vector<Cell>& cells, const std::vector<std::string>& states) {
  std::string table = fmt::format(kForm, "strategy", "workers", "samples/s", "spread", "speed-up", "step ms",
                                  "exchange ms", "exposed ms", "sent/step", "accuracy", "replicas");
  std::string doubts;
  const bool many = std::ranges::any_of(cells, [&](const Cell& c) { return c.model != cells[0].model; });
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& c = cells[i];
    if (many && (i == 0 || cells[i - 1].model != c.model)) table += c.model + "\n";
    if (!c.summary.is_null()) {
      table += row(c, baseline(cells, c.model));
    } else {
      table += fmt::format("{:<20} {:>7} {}\n", label_of(c), c.workers,
                           !c.failure.empty()  ? " failed: " + c.failure
                           : i < states.size() ? " " + states[i]
                                               : " did not run");
    }
    if (!c.doubt.empty()) doubts += fmt::format("{}: {}\n", name_of(c), c.doubt);
  }
  return table + doubts;
}

}  // namespace tutti::report
