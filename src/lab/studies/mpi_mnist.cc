// Study B: MPI data parallelism on MNIST, gradients reduced to rank 0, averaged and broadcast.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lab/studies/studies.h"

namespace tutti::lab::studies {
namespace {

constexpr const char* kModel = "mnist-cnn";
constexpr double kSamples = 60'000;  // of an epoch
constexpr int kMost = 8;
constexpr const char* kSameBits = "same bits";  // a variant: --reproducible, one batch whatever the processes

struct Row {
  int nodes;
  int processes;  // a node
  double update_s;
  double epoch_s;
  double loss;
  double accuracy;  // per cent
  double total_s;
};
constexpr Row kTheirs[] = {
    {1, 1, 0.14, 142.04, 0.0441, 98.80, 595.27}, {1, 2, 0.15, 82.06, 0.0559, 98.43, 416.88},
    {1, 4, 0.17, 34.40, 0.0659, 98.28, 193.12},  {1, 8, 0.15, 20.52, 0.0912, 97.20, 103.67},
    {2, 1, 0.15, 81.99, 0.0521, 98.48, 415.21},  {2, 2, 0.16, 41.03, 0.0664, 98.32, 207.78},
    {2, 4, 0.18, 20.52, 0.1115, 96.75, 97.32},   {4, 1, 0.13, 41.06, 0.0591, 98.47, 215.06},
    {4, 2, 0.13, 20.53, 0.1942, 94.03, 130.80},
};

std::vector<PlannedRun> plan(Scale scale, const std::string& folder) {
  const bool full = scale == Scale::full;
  std::vector<PlannedRun> runs;
  for (const int processes : full ? std::vector{1, 2, 4, 8} : std::vector{1, 2}) {
    // Alone there is nothing to exchange.
    for (const char* strategy :
         processes == 1 ? std::vector{"local"} : std::vector{"reduce-broadcast", "allreduce"}) {
      config::TrainConfig c;
      c.model = kModel;
      c.data = "mnist";
      c.strategy = strategy;
      c.workers = processes;
      c.batch = 128;
      c.lr = 0.001;
      c.scale_lr = true;
      c.schedule = "cosine";
      c.epochs = full ? 5 : 1;
      c.threads = 1;
      runs.push_back(planned(folder, c));
    }
  }
  for (const int processes : {1, 2, 4, 8}) {
    config::TrainConfig c;
    c.model = kModel;
    c.data = "mnist";
    c.strategy = processes == 1 ? "local" : "reduce-broadcast";
    c.workers = processes;
    c.reproducible = true;
    c.global_batch = 128;
    c.lr = 0.001;
    c.steps = full ? 469 : 30;  // an epoch
    c.no_evaluate = !full;
    runs.push_back(planned(folder, c, kSameBits));
  }
  return runs;
}

const Cell* cell_of(const std::vector<Cell>& cells, const char* strategy, int processes) {
  return find_cell(cells, {kModel, processes == 1 ? "local" : strategy, processes});
}

std::optional<double> epoch_seconds(const Cell* cell) {
  const auto speed = figure(cell, "samples_per_second");
  return speed ? std::optional(kSamples / *speed) : std::nullopt;
}

std::optional<double> times(std::optional<double> value, double factor) {
  return value ? std::optional(*value * factor) : std::nullopt;
}

constexpr const char* kStrategies[] = {"reduce-broadcast", "allreduce"};

// Their row, and ours where they had one node too.
template <typename Of>
report::StudyTable beside(const std::vector<Cell>& cells, const std::string& title, const std::string& unit,
                          double Row::*theirs, const Of& of) {
  report::StudyTable t{title, {"nodes x processes", "theirs, " + unit}, {}};
  for (const char* strategy : kStrategies) t.header.push_back(fmt::format("{}, {}", strategy, unit));
  for (const Row& row : kTheirs) {
    t.rows.push_back({fmt::format("{} x {}", row.nodes, row.processes), row.*theirs});
    for (const char* strategy : kStrategies) {
      t.rows.back().push_back(row.nodes == 1 ? or_null(of(cell_of(cells, strategy, row.processes)))
                                             : nlohmann::json());
    }
  }
  return t;
}

template <typename Of>
report::Chart against_processes(const std::vector<Cell>& cells, const std::string& title,
                                const std::string& unit, double Row::*theirs, const Of& of) {
  report::Chart chart{title, "processes", unit, {{"theirs, one node", {}, true}}};
  for (const Row& row : kTheirs) {
    if (row.nodes == 1) chart.lines[0].points.emplace_back(row.processes, row.*theirs);
  }
  for (const char* strategy : kStrategies) {
    report::Line line{strategy, {}, false};
    for (const int n : workers_of(cells)) {
      if (const auto y = of(cell_of(cells, strategy, n))) line.points.emplace_back(n, *y);
    }
    chart.lines.push_back(std::move(line));
  }
  return chart;
}

report::Claim keeps_accuracy(const std::vector<Cell>& cells) {
  report::Claim claim{
      "With a warm-up, a learning rate that falls, equal initial weights and shuffled parts, 8 processes "
      "learn as well as one",
      "without them accuracy falls from 98.80 to between 94.03 and 97.20 %",
      "",
      {}};
  const auto one = figure(cell_of(cells, "local", 1), "test_accuracy");
  for (const char* strategy : kStrategies) {
    const auto many = figure(cell_of(cells, strategy, kMost), "test_accuracy");
    if (!one || !many) continue;
    const double lost = (*one - *many) * 100;
    claim.ours += fmt::format("{}{}: {:.2f} % with 8, {:.2f} % with one", claim.ours.empty() ? "" : "; ",
                              strategy, *many * 100, *one * 100);
    claim.holds = claim.holds.value_or(true) && lost <= 0.3;
  }
  if (claim.holds) claim.ours += "; asked: within 0.3 points";
  return claim;
}

report::Claim scales(const std::vector<Cell>& cells) {
  report::Claim claim{
      "Two processes take little more than half of one's time for an epoch", "1.73 times as fast", "", {}};
  const auto one = epoch_seconds(cell_of(cells, "local", 1));
  const auto two = epoch_seconds(cell_of(cells, "reduce-broadcast", 2));
  if (!one || !two) return claim;
  claim.ours = fmt::format("{:.2f} times as fast, by reduce-broadcast; asked: at least 1.73", *one / *two);
  claim.holds = *one / *two >= 1.73;
  return claim;
}

report::Claim same_bits(const std::vector<Cell>& cells) {
  report::Claim claim{"1, 2, 4 and 8 processes with one global batch end with the same weights",
                      "other loss and accuracy at every number of processes",
                      "",
                      {}};
  std::set<std::string> digests;
  std::size_t runs = 0;
  constexpr int kProcesses[] = {1, 2, 4, 8};
  for (const int processes : kProcesses) {
    const char* const strategy = processes == 1 ? "local" : "reduce-broadcast";
    const Cell* cell = find_cell(cells, {kModel, fmt::format("{}, {}", strategy, kSameBits), processes});
    if (cell == nullptr) continue;
    digests.insert(cell->summary.at("parameters_sha256").get<std::string>());
    ++runs;
  }
  if (runs < std::size(kProcesses)) return claim;
  claim.holds = digests.size() == 1;
  claim.ours = fmt::format("{} runs with --reproducible, {}", runs,
                           *claim.holds ? "one hash: " + digests.begin()->substr(0, 8) : "several hashes");
  return claim;
}

report::Claim all_reduce_is_cheaper(const std::vector<Cell>& cells) {
  report::Claim claim{"An all-reduce of the gradients takes less time than to reduce and broadcast them",
                      "none could be got to work on a list of arrays",
                      "",
                      {}};
  for (const int n : workers_of(cells)) {
    const auto both = figure(cell_of(cells, "reduce-broadcast", n), "exchange_ms");
    const auto one = figure(cell_of(cells, "allreduce", n), "exchange_ms");
    if (n == 1 || !both || !one) continue;
    claim.ours += fmt::format("{}{:.2f} against {:.2f} ms a step with {}", claim.ours.empty() ? "" : "; ",
                              *one, *both, n);
    claim.holds = claim.holds.value_or(true) && *one < *both;
  }
  return claim;
}

report::StudyResult conclude(const Evidence& evidence) {
  const auto& cells = evidence.cells;
  const auto of = [](const char* key, double factor) {
    return [=](const Cell* c) { return times(figure(c, key), factor); };
  };
  report::StudyResult out;
  out.claims = {keeps_accuracy(cells), scales(cells), all_reduce_is_cheaper(cells), same_bits(cells)};
  out.tables = {beside(cells, "Test accuracy", "%", &Row::accuracy, of("test_accuracy", 100)),
                beside(cells, "Test loss", "nats", &Row::loss, of("test_loss", 1)),
                beside(cells, "Time of an epoch", "s", &Row::epoch_s, epoch_seconds),
                beside(cells, "Gradient update", "s", &Row::update_s, of("exchange_ms", 1e-3)),
                beside(cells, "Time in all", "s", &Row::total_s, of("wall_seconds", 1))};
  out.charts = {
      against_processes(cells, "Accuracy against processes", "%", &Row::accuracy, of("test_accuracy", 100)),
      against_processes(cells, "Time of an epoch against processes", "s", &Row::epoch_s, epoch_seconds),
      against_processes(cells, "Time in all against processes", "s", &Row::total_s, of("wall_seconds", 1))};
  return out;
}

}  // namespace

Study mpi_mnist() {
  return {
      .name = "mpi-mnist",
      .title = "MPI data parallelism on MNIST: reduce, average, broadcast",
      .ran =
          "Theirs: a network of 690,590 parameters, Adam 0.001 times the processes, batch 128 a process, 5 "
          "epochs, on 1 to 4 nodes. Ours: the same network on one host, one thread a process, with a "
          "warm-up, a learning rate that falls along a cosine, the same initial weights everywhere and "
          "shuffled parts; more processes than cores share them.",
      .plan = plan,
      .conclude = conclude};
}

}  // namespace tutti::lab::studies
