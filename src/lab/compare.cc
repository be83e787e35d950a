#include "lab/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "exchange/strategy.h"
#include "lab/run.h"

namespace tutti::lab {
namespace {

double speed(const Cell& c) {
  return c.summary.at("samples_per_second").get<double>();
}

const Cell* baseline(const std::vector<Cell>& cells) {
  const auto found =
      std::ranges::find_if(cells, [](const Cell& c) { return c.workers == 1 && !c.summary.is_null(); });
  return found == cells.end() ? nullptr : &*found;
}

std::string row(const Cell& c, const Cell* base) {
  if (c.summary.is_null()) return fmt::format("{:<17} {:>7}  failed: {}\n", c.strategy, c.workers, c.failure);
  const auto& s = c.summary;
  const auto accuracy = s.at("test_accuracy");
  return fmt::format("{:<17} {:>7} {:>10.0f} {:>8} {:>9.1f} {:>12.2f} {:>11.2f} {:>10} {:>9} {:>8}\n",
                     c.strategy, c.workers, speed(c),
                     base != nullptr ? fmt::format("{:.2f}x", speed(c) / speed(*base)) : "-",
                     s.at("step_ms").at("median").get<double>(), s.at("exchange_ms").get<double>(),
                     s.at("exposed_exchange_ms").get<double>(),
                     human_bytes(s.at("bytes_sent_per_worker").get<std::uint64_t>() /
                                 std::max<std::uint64_t>(1, s.at("steps").get<std::uint64_t>())),
                     accuracy.is_null() ? "-" : fmt::format("{:.2f} %", accuracy.get<double>() * 100),
                     (replicas_agree(s) ? "equal  " : "DIFFER  ") + conditions_of(s));
}

}  // namespace

std::vector<Cell> plan_cells(const CompareSpec& spec) {
  std::vector<Cell> cells;
  const bool has_local = std::ranges::find(spec.strategies, "local") != spec.strategies.end();
  for (const std::string& name : spec.strategies) {
    const auto& strategy = exchange::find_strategy(name);
    for (const int workers : spec.workers) {
      // Alone, every strategy is the local one; where that is asked for it is measured once.
      if (strategy.one_worker_only ? workers != 1 : workers == 1 && has_local) continue;
      cells.push_back({name, workers, fmt::format("{}/{}-{}", spec.base.out, name, workers), nullptr, ""});
    }
  }
  return cells;
}

std::string render_table(const std::vector<Cell>& cells) {
  std::string table = fmt::format("{:<17} {:>7} {:>10} {:>8} {:>9} {:>12} {:>11} {:>10} {:>9} {:>8}\n",
                                  "strategy", "workers", "samples/s", "speed-up", "step ms", "exchange ms",
                                  "exposed ms", "sent/step", "accuracy", "replicas");
  const Cell* base = baseline(cells);
  for (const Cell& c : cells) table += row(c, base);
  return table;
}

std::string verdict(const std::vector<Cell>& cells) {
  const auto counts = [](const Cell& c) {
    return c.workers > 1 && !c.summary.is_null() && replicas_agree(c.summary);
  };
  int most = 0;  // only runs of one size are compared
  for (const Cell& c : cells) most = counts(c) ? std::max(most, c.workers) : most;
  const Cell* best = nullptr;
  const Cell* worst = nullptr;
  for (const Cell& c : cells) {
    if (c.workers != most || !counts(c)) continue;
    if (best == nullptr || speed(c) > speed(*best)) best = &c;
    if (worst == nullptr || speed(c) < speed(*worst)) worst = &c;
  }
  if (best == nullptr) return "";
  const auto exposed = [](const Cell& c) { return c.summary.at("exposed_exchange_ms").get<double>(); };
  const double ratio = speed(*best) / speed(*worst);
  if (ratio < 1.03) {
    return fmt::format(
        "No strategy stands out: all are within {:.0f} % at {} workers; a step waits at most {:.2f} ms for "
        "its exchange.",
        (ratio - 1) * 100 + 0.5, best->workers, std::max(exposed(*best), exposed(*worst)));
  }
  return fmt::format(
      "{}: {:.2f} times the throughput of {} at {} workers; a step waits {:.2f} ms for its exchange, "
      "against {:.2f} ms.",
      best->strategy, ratio, worst->strategy, best->workers, exposed(*best), exposed(*worst));
}

nlohmann::json to_json(const std::vector<Cell>& cells) {
  auto array = nlohmann::json::array();
  for (const Cell& c : cells) {
    array.push_back({{"strategy", c.strategy},
                     {"workers", c.workers},
                     {"folder", c.folder},
                     {"summary", c.summary},
                     {"failure", c.failure}});
  }
  return array;
}

}  // namespace tutti::lab
