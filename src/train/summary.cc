#include "train/summary.h"

#include <algorithm>
#include <numeric>

#include "base/crypto.h"
#include "base/file.h"
#include "base/version.h"
#include "observe/machine.h"

namespace tutti::train {
namespace {

double mean(const std::vector<RankReport>& ranks, auto member) {
  double sum = 0;
  for (const RankReport& r : ranks) sum += static_cast<double>(r.*member);
  return sum / static_cast<double>(ranks.size());
}

template <typename T>
std::vector<T> list(const std::vector<RankReport>& ranks, T RankReport::*member) {
  std::vector<T> values;
  for (const RankReport& r : ranks) values.push_back(r.*member);
  return values;
}

// What was measured on the test part, or would have been.
std::map<std::string, std::optional<double>> test_figures(const std::optional<Evaluation>& evaluation) {
  auto figures = observe::Summary{}.test;
  if (evaluation) {
    for (const auto& [name, value] : evaluation->figures) figures[name] = value;
  }
  return figures;
}

std::optional<observe::Until> until_of(const RunRecord& run) {
  if (!run.target) return std::nullopt;
  return observe::Until{.target = {.figure = run.target->figure, .value = run.target->value},
                        .reached = run.seconds_to_target.has_value(),
                        .time_to_target_seconds = run.seconds_to_target};
}

std::int64_t skipped_steps(const RunRecord& run, const std::vector<RankReport>& ranks) {
  if (run.skips_together) return ranks[0].skipped_steps;
  return std::transform_reduce(ranks.begin(), ranks.end(), std::int64_t{0}, std::plus(),
                               [](const RankReport& r) { return r.skipped_steps; });
}

}  // namespace

RankReport make_report(const StepSeries& series, std::int64_t steps_per_epoch) {
  RankReport r;
  r.compute_ms = quantile(series.compute, 0.5);
  r.exchange_ms = quantile(series.exchange, 0.5);
  r.exposed_exchange_ms = quantile(series.exposed, 0.5);
  r.finite_check_ms = quantile(series.finite_check, 0.5);
  const std::size_t tail = std::min(series.loss.size(), static_cast<std::size_t>(steps_per_epoch));
  if (tail > 0) {
    r.train_loss =
        std::accumulate(series.loss.end() - static_cast<std::ptrdiff_t>(tail), series.loss.end(), 0.0) /
        static_cast<double>(tail);
  }
  r.steps = static_cast<std::int64_t>(series.step.size());
  r.samples = series.samples;
  r.seconds = std::accumulate(series.step.begin(), series.step.end(), 0.0) / 1000.0;
  return r;
}

std::vector<RankReport> gather_reports(collectives::Collectives& all, const RankReport& mine) {
  std::vector<RankReport> ranks;
  for (const auto& text : collectives::gather_text(all, nlohmann::json(mine).dump(), "reports")) {
    ranks.push_back(nlohmann::json::parse(text).get<RankReport>());
  }
  return ranks;
}

void write_trace(collectives::Collectives& all, const observe::Trace& mine,
                 const std::filesystem::path& path) {
  const auto texts = collectives::gather_text(all, mine.events().dump(), "traces");
  if (all.rank() != Rank{0}) return;
  std::vector<nlohmann::json> traces;
  for (const auto& text : texts) traces.push_back(nlohmann::json::parse(text));
  write_file_atomically(path, observe::join_traces(traces).dump());
}

std::vector<std::string> who_skipped(const std::vector<RankReport>& ranks) {
  std::vector<std::string> lines;
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].skipped_steps == 0) continue;
    lines.push_back(fmt::format("rank {} skipped {} steps; the first, {}", ranks[r].rank,
                                ranks[r].skipped_steps, ranks[r].first_skipped));
  }
  return lines;
}

observe::Summary make_summary(const RunRecord& run, const std::vector<RankReport>& ranks) {
  const auto& config = run.setup.config;
  const double count = static_cast<double>(ranks.size());
  const double seconds = std::ranges::max_element(ranks, {}, &RankReport::seconds)->seconds;
  // A run that was killed at its end and goes on has made no step.
  const auto per_second = [&](double count_of) { return seconds > 0 ? count_of / seconds : 0.0; };
  Sha256 order;
  for (const RankReport& r : ranks) order.update(r.samples_sha256);

  observe::Summary s;
  s.model = config.model;
  s.data = config.data;
  s.strategy = config.strategy;
  s.workers = config.workers;
  s.servers = config.servers;
  s.steps = run.steps;
  s.batch_per_worker = batch_of(run.setup.config);
  s.reproducible = run.setup.config.reproducible;
  s.seed = config.seed;

  s.samples_per_second = per_second(mean(ranks, &RankReport::samples) * count);
  s.steps_per_second = per_second(static_cast<double>(run.steps - run.setup.first_step));
  s.gradients_per_second = per_second(mean(ranks, &RankReport::steps) * count);
  if (run.words_a_sample > 0) {
    s.words_per_second = s.samples_per_second * static_cast<double>(run.words_a_sample);
  }
  s.steps_per_worker = list(ranks, &RankReport::steps);
  s.pace_ms = config.pace_ms;
  s.slow = config.slow;
  s.step_ms = {.median = quantile(run.series.step, 0.5), .p90 = quantile(run.series.step, 0.9)};
  s.compute_ms = mean(ranks, &RankReport::compute_ms);
  s.exchange_ms = mean(ranks, &RankReport::exchange_ms);
  s.exposed_exchange_ms = mean(ranks, &RankReport::exposed_exchange_ms);
  s.finite_check_ms = mean(ranks, &RankReport::finite_check_ms);
  s.checkpoint_hold_ms = run.checkpoint_hold_ms;
  s.checkpoint_copy_ms = run.checkpoint_copy_ms;
  s.wall_seconds = run.wall_seconds;
  s.bytes_sent_per_worker = static_cast<std::uint64_t>(mean(ranks, &RankReport::bytes_sent));
  s.peak_memory_bytes = list(ranks, &RankReport::peak_memory_bytes);
  s.parameter_bytes = run.parameters * static_cast<std::int64_t>(sizeof(float));

  const bool learned = ranks[0].skipped_steps < ranks[0].steps || ranks[0].steps == 0;
  if (config.pace_ms == 0 && learned && seconds > 0) {
    // With --reproducible every rank has that of all shards.
    s.train_loss = config.reproducible ? ranks.front().train_loss : mean(ranks, &RankReport::train_loss);
  }
  s.test = test_figures(run.evaluation);
  s.until = until_of(run);

  s.skipped_steps = skipped_steps(run, ranks);
  for (const Rank r : run.dropped_workers) s.dropped_workers.push_back(to_int(r));
  s.restarts = static_cast<std::int64_t>(run.setup.restarts.size());
  s.restart_causes = run.setup.restarts;

  s.parameters_sha256 = ranks[0].parameters_sha256;
  s.replicas_sha256 = list(ranks, &RankReport::parameters_sha256);
  s.initial_parameters_sha256 = run.initial_sha256;
  s.samples_sha256 = to_hex(order.digest());
  s.sample_ledger = shown(joined(list(ranks, &RankReport::epochs)), !run.dropped_workers.empty());
  s.data_sha256 = run.setup.data_sha256;
  if (!run.setup.model_sha256.empty()) s.model_sha256 = run.setup.model_sha256;
  s.machine = observe::describe_machine();
  s.config = config;
  s.version = kVersion;
  return s;
}

}  // namespace tutti::train
