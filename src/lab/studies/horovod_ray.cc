// Study E: three workloads under Horovod on one and two GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "lab/studies/studies.h"

namespace tutti::lab::studies {
namespace {

struct Theirs {
  double seconds;
  double accuracy;    // per cent
  double iterations;  // a second
};

struct Workload {
  const char* model;
  const char* data;
  const char* name;
  std::int64_t image_size;
  std::int64_t batch;
  std::int64_t steps;        // 0: by epochs
  std::int64_t quick_steps;  // 0: by epochs
  Theirs theirs[2][2];       // by node (5: Titan RTX, 9: V100), by GPUs (1, 2)
};
constexpr Workload kWorkloads[] = {
    {"resnet50",
     "mnist",
     "ResNet50 on MNIST",
     32,
     64,
     150,
     60,
     {{{4.132, 90.2, 7.56}, {3.4474, 90.4, 4.53}}, {{3.4474, 90.3, 9.1}, {3.7002, 90.3, 4.23}}}},
    {"mobilenetv2",
     "fashion-mnist",
     "MobileNetV2 on Fashion-MNIST",
     32,
     64,
     300,
     200,
     {{{0.691, 72.9, 45.23}, {0.6409, 72.0, 24}}, {{0.6409, 72.2, 50.84}, {0.936, 71.8, 16.7}}}},
    {"sdss-dnn",
     "sdss-dr17",
     "A dense network on SDSS",
     0,
     128,
     0,
     0,
     {{{0.002, 73.8, 171.77}, {0.00326, 73.9, 57.05}}, {{0.00336, 74.2, 110.73}, {0.0039, 74.1, 47.6}}}},
};

std::vector<PlannedRun> plan(Scale scale, const std::string& folder) {
  const bool full = scale == Scale::full;
  std::vector<PlannedRun> runs;
  const auto strategies =
      full ? std::vector{"allreduce", "reduce-broadcast", "ps-sync", "hybrid"} : std::vector{"allreduce"};
  for (const Workload& w : kWorkloads) {
    for (const int workers : {1, 2}) {
      for (const char* strategy : workers == 1 ? std::vector{"local"} : strategies) {
        config::TrainConfig c;
        c.model = w.model;
        c.data = w.data;
        c.strategy = strategy;
        c.workers = workers;
        c.image_size = w.image_size;
        c.batch = w.batch;
        c.steps = full ? w.steps : w.quick_steps;
        c.epochs = c.steps == 0 ? 5 : 0;
        c.threads = 1;
        runs.push_back(planned(folder, c));
      }
    }
  }
  return runs;
}

double their_best(const Workload& w) {
  double best = 0;
  for (const auto& node : w.theirs) {
    for (const Theirs& t : node) best = std::max(best, t.accuracy);
  }
  return best;
}

// Under every strategy.
report::Claim learns_better(const std::vector<Cell>& cells, const Workload& w) {
  report::Claim claim{fmt::format("{} learns, and better than theirs", w.name),
                      fmt::format("at most {} %", their_best(w)),
                      "",
                      {}};
  for (const Cell& c : cells) {
    const auto accuracy = c.model == w.model
                              ? figure(find_cell(cells, {c.model, label_of(c), c.workers}), "test_accuracy")
                              : std::nullopt;
    if (!accuracy) continue;
    claim.ours += fmt::format("{}{} {:.1f} %", claim.ours.empty() ? "" : ", ", name_of(c), *accuracy * 100);
    claim.holds = claim.holds.value_or(true) && *accuracy * 100 > their_best(w);
  }
  return claim;
}

report::Claim fewer_iterations(const std::vector<Cell>& cells) {
  report::Claim claim{
      "With two workers each makes fewer iterations a second than one alone (by construction: an exchange "
      "takes time)",
      "0.33 to 0.60 times as many",
      "",
      {}};
  for (const Workload& w : kWorkloads) {
    const auto one = figure(find_cell(cells, {w.model, "local", 1}), "steps_per_second");
    const auto two = figure(find_cell(cells, {w.model, "allreduce", 2}), "steps_per_second");
    if (!one || !two) continue;
    claim.ours += fmt::format("{}{} {:.2f} times", claim.ours.empty() ? "" : ", ", w.model, *two / *one);
    claim.holds = claim.holds.value_or(true) && *two < *one;
  }
  return claim;
}

report::StudyTable table_of(const std::vector<Cell>& cells, const Workload& w) {
  report::StudyTable t{
      fmt::format("{}, theirs on two kinds of node beside ours on the cores of this machine", w.name),
      {"workers", "where", "accuracy %", "iterations/s", "training s"},
      {}};
  for (const int workers : {1, 2}) {
    const auto at = static_cast<std::size_t>(workers - 1);
    const auto theirs = [&](const char* where, const Theirs& r) {
      t.rows.push_back({workers, where, r.accuracy, r.iterations, r.seconds});
    };
    theirs("theirs, node 5 (Titan RTX)", w.theirs[0][at]);
    theirs("theirs, node 9 (V100)", w.theirs[1][at]);
    for (const Cell& c : cells) {
      const Cell* cell = c.model == w.model && c.workers == workers
                             ? find_cell(cells, {c.model, label_of(c), workers})
                             : nullptr;
      if (cell == nullptr) continue;
      const double rate = *figure(cell, "steps_per_second");
      t.rows.push_back({workers, "ours, " + label_of(c), *figure(cell, "test_accuracy") * 100, rate,
                        *figure(cell, "steps") / rate});
    }
  }
  return t;
}

report::StudyResult conclude(const Evidence& evidence) {
  report::StudyResult out;
  for (const Workload& w : kWorkloads) {
    out.claims.push_back(learns_better(evidence.cells, w));
    out.tables.push_back(table_of(evidence.cells, w));
  }
  out.claims.push_back(fewer_iterations(evidence.cells));
  return out;
}

}  // namespace

Study horovod_ray() {
  return {
      .name = "horovod-ray",
      .title = "Horovod on three workloads, with one and two workers",
      .ran =
          "Theirs: ResNet50 on MNIST, MobileNetV2 on Fashion-MNIST and a dense network on SDSS photometry, "
          "on one "
          "and two GPUs of two kinds of node; Ray could not be made to run. What their training seconds "
          "cover they "
          "do not say. Ours: the same networks, images brought to 32x32, on processors, one thread a worker. "
          "How "
          "long they trained they do not say; ours train as long as we chose, so a better accuracy is no "
          "verdict on their systems.",
      .plan = plan,
      .conclude = conclude};
}

}  // namespace tutti::lab::studies
