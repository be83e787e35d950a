#include "report/verdict.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "observe/summary.h"
#include "report/table.h"

namespace tutti::report {
namespace {

// Closer than this, runs of one program on one machine do not differ.
constexpr double kAlike = 1.03;

double number(const Cell& c, const char* key) {
  return c.summary.value(key, 0.0);
}

double exposed(const Cell& c) {
  return number(c, "exposed_exchange_ms");
}

bool counts(const Cell& c) {
  return c.workers > 1 && !c.summary.is_null() && c.doubt.empty() &&
         observe::replicas_agree(c.summary.get<observe::Summary>());
}

// The cells to compare, fastest first: only runs of one size are.
std::vector<const Cell*> ranking(const std::vector<Cell>& cells, const std::string& model) {
  int most = 0;
  for (const Cell& c : cells) {
    if (c.model == model && counts(c)) most = std::max(most, c.workers);
  }
  std::vector<const Cell*> ranked;
  for (const Cell& c : cells) {
    if (c.model == model && c.workers == most && counts(c)) ranked.push_back(&c);
  }
  std::ranges::stable_sort(ranked, std::greater(), [](const Cell* c) { return speed(*c); });
  return ranked;
}

// Whether one's repeats reach into the other's, or both are alike anyway.
bool too_close(const Cell& fast, const Cell& slow) {
  const auto a = speeds(fast);
  const auto b = speeds(slow);
  if (a.size() > 1 && b.size() > 1 && b.back() >= a.front()) return true;
  return speed(fast) / speed(slow) < kAlike;
}

// Why the one is faster: what of a step the other loses.
std::string reason(const Cell& fast, const Cell& slow) {
  const double lost = number(slow, "compute_ms") + exposed(slow) - number(fast, "compute_ms") - exposed(fast);
  const double waited = exposed(slow) - exposed(fast);
  auto text =
      fmt::format("a step waits {:.2f} ms for its exchange, against {:.2f} ms", exposed(fast), exposed(slow));
  if (lost > 0 && waited < lost / 2) {
    text += fmt::format(", and computes {:.2f} ms, against {:.2f} ms: the exchange takes cores from it",
                        number(fast, "compute_ms"), number(slow, "compute_ms"));
  }
  return text;
}

// What the speed costs, where runs of as many steps were evaluated and the best is a point or more ahead.
std::string accuracies(const Cell& fastest, const std::vector<const Cell*>& ranked) {
  const auto accuracy = [](const Cell* c) { return c->summary.value("test_accuracy", nlohmann::json()); };
  const auto evaluated = [&](const Cell* c) { return accuracy(c).is_number(); };
  if (!std::ranges::all_of(ranked, evaluated)) return "";
  const Cell* best = *std::ranges::max_element(ranked, std::less(), accuracy);
  const Cell* least = *std::ranges::min_element(ranked, std::less(), accuracy);
  const auto percent = [&](const Cell* c) { return accuracy(c).get<double>() * 100; };
  if (percent(best) - percent(least) < 1) return "";
  if (percent(best) - percent(&fastest) >= 1) {
    return fmt::format(" Its test accuracy is {:.1f} %; {} reaches {:.1f} % in as many steps.",
                       percent(&fastest), label_of(*best), percent(best));
  }
  return fmt::format(" In as many steps {} reaches a test accuracy of {:.1f} %, {} only {:.1f} %.",
                     label_of(*best), percent(best), label_of(*least), percent(least));
}

std::string speed_up(const Cell& best, const std::vector<Cell>& cells, const std::string& who = "it") {
  const Cell* one = baseline(cells, best.model);
  if (one == nullptr) return "";
  return fmt::format("; {} is {:.2f} times as fast as one worker", who, speed(best) / speed(*one));
}

std::string verdict_of(const std::vector<Cell>& cells, const std::string& model) {
  const auto ranked = ranking(cells, model);
  if (ranked.empty()) return "";
  const Cell& best = *ranked.front();
  if (ranked.size() == 1) {
    return fmt::format("{}: nothing to compare it with{}.", name_of(best), speed_up(best, cells));
  }
  const Cell& worst = *ranked.back();
  const double ratio = speed(best) / speed(worst);
  if (too_close(best, worst)) {
    double most = 0;
    for (const Cell* c : ranked) most = std::max(most, exposed(*c));
    return fmt::format(
        "No strategy stands out: all are within {:.0f} % at {} workers; a step waits at most {:.2f} ms for "
        "its exchange{}.{}",
        (ratio - 1) * 100 + 0.5, best.workers, most,
        speed_up(best, cells, "the fastest, " + label_of(best) + ","), accuracies(best, ranked));
  }
  std::vector<std::string> close;
  for (const Cell* c : ranked) {
    if (c != &best && too_close(best, *c)) close.push_back(label_of(*c));
  }
  return fmt::format(
      "{}: {:.2f} times the throughput of {} at {} workers; {}{}.{}{}", label_of(best), ratio,
      label_of(worst), best.workers, reason(best, worst), speed_up(best, cells),
      close.empty() ? "" : fmt::format(" As fast, as far as this can tell: {}.", fmt::join(close, ", ")),
      accuracies(best, ranked));
}

}  // namespace

std::string verdict(const std::vector<Cell>& cells) {
  std::vector<std::string> models;
  for (const Cell& c : cells) {
    if (std::ranges::find(models, c.model) == models.end()) models.push_back(c.model);
  }
  std::vector<std::string> said;
  for (const std::string& model : models) {
    const auto text = verdict_of(cells, model);
    if (!text.empty()) said.push_back(models.size() > 1 ? fmt::format("{}: {}", model, text) : text);
  }
  return fmt::format("{}", fmt::join(said, "\n"));
}

}  // namespace tutti::report
