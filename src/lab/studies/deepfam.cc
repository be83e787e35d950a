// Study C: DeepFam on protein sequences, alone, under TensorFlow's servers, Horovod and Parallax, and their
// checkpoints compared value by value.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "lab/studies/studies.h"

namespace tutti::lab::studies {
namespace {

constexpr const char* kModel = "deepfam";

struct Architecture {
  const char* strategy;
  int workers;
  const char* theirs;
};
constexpr Architecture kArchitectures[] = {
    {"local", 1, "no distribution"},
    {"ps-sync", 2, "TensorFlow's parameter server"},
    {"allreduce", 2, "Horovod"},
    {"hybrid", 2, "Parallax"},
    {"reduce-broadcast", 2, "not theirs"},
    {"ring", 3, "not theirs"}};  // a sum of two would be the same in every order
// Of --reproducible: a divisor of their batch.
constexpr int kShards = 4;

std::vector<PlannedRun> plan(Scale scale, const std::string& folder) {
  const bool full = scale == Scale::full;
  std::vector<PlannedRun> runs;
  for (const Architecture& a : kArchitectures) {
    config::TrainConfig c;
    c.model = kModel;
    c.data = "gpcr";
    c.strategy = a.strategy;
    c.workers = a.workers;
    c.global_batch = full ? 100 : 16;
    c.reproducible = true;
    c.shards = kShards;
    c.lr = 0.001;
    c.steps = full ? 200 : 20;
    c.evaluate_every = 20;
    c.checkpoint_every = full ? 100 : 10;
    runs.push_back(planned(folder, c));
  }
  return runs;
}

const Cell* cell_of(const std::vector<Cell>& cells, const Architecture& a) {
  return find_cell(cells, {kModel, a.strategy, a.workers});
}

// How far the last checkpoints of two cells are apart, in words; empty where that is not known.
std::string apart(const Evidence& evidence, const Cell& first, const Cell& second) {
  if (first.summary.at("parameters_sha256") == second.summary.at("parameters_sha256")) return "the same bits";
  for (const auto& row : evidence.differences) {
    const bool these = &evidence.cells[row.at("first").get<std::size_t>()] == &first &&
                       &evidence.cells[row.at("second").get<std::size_t>()] == &second;
    if (!these || !row.contains("differing")) continue;
    return fmt::format("{} of {} values differ, by at most {} ULPs", row.at("differing").get<std::int64_t>(),
                       row.at("elements").get<std::int64_t>(), row.at("max_ulps").get<std::uint64_t>());
  }
  return "other bits";
}

// Of two distributed runs, from the same weights and samples.
report::Claim equal(const Evidence& evidence, report::Claim claim, const Architecture& a,
                    const Architecture& b) {
  const Cell* first = cell_of(evidence.cells, a);
  const Cell* second = cell_of(evidence.cells, b);
  if (first == nullptr || second == nullptr) return claim;
  claim.ours = apart(evidence, *first, *second);
  claim.holds = claim.ours == "the same bits";
  return claim;
}

report::Claim begin_equal(const std::vector<Cell>& cells) {
  report::Claim claim{
      "All begin with the same weights", "the checkpoints after 0 steps are compared", "", {}};
  std::vector<std::string> digests;
  for (const Architecture& a : kArchitectures) {
    if (const Cell* cell = cell_of(cells, a))
      digests.push_back(cell->summary.value("initial_parameters_sha256", ""));
  }
  if (digests.size() < std::size(kArchitectures)) return claim;
  claim.holds = std::ranges::all_of(digests, [&](const auto& d) { return d == digests[0]; });
  claim.ours = fmt::format("{} runs, {}", digests.size(), *claim.holds ? "one digest" : "several digests");
  return claim;
}

// The model that a cell has saved after so many steps, as its file's digest; empty where it has none.
std::string saved_after(const Cell& cell, std::int64_t step) {
  for (const auto& saved : cell.summary.value("checkpoints", nlohmann::json::array())) {
    if (saved.at("step") == step) return saved.at("model_sha256");
  }
  return "";
}

// At every step that all of them have saved.
report::Claim stay_equal(const std::vector<Cell>& cells) {
  report::Claim claim{
      "All synchronous architectures, and one process alone, have equal checkpoints on the way",
      "Horovod's and Parallax's are equal, the server's and one process's are others",
      "",
      {}};
  std::vector<const Cell*> compared;
  for (const Architecture& a : kArchitectures) {
    if (const Cell* cell = cell_of(cells, a)) compared.push_back(cell);
  }
  if (compared.size() < std::size(kArchitectures)) return claim;
  std::vector<std::string> words;
  for (const auto& saved : compared[0]->summary.value("checkpoints", nlohmann::json::array())) {
    const auto step = saved.at("step").get<std::int64_t>();
    std::set<std::string> digests;
    for (const Cell* cell : compared) digests.insert(saved_after(*cell, step));
    if (digests.contains("")) continue;
    words.push_back(fmt::format("after {} steps {}", step, digests.size() == 1 ? "one digest" : "several"));
    claim.holds = claim.holds.value_or(true) && digests.size() == 1;
  }
  if (!words.empty()) claim.ours = fmt::format("{} runs: {}", compared.size(), fmt::join(words, ", "));
  return claim;
}

report::StudyResult conclude(const Evidence& evidence) {
  const auto& cells = evidence.cells;
  report::StudyResult out;
  out.claims = {
      begin_equal(cells),
      equal(evidence,
            {"Horovod and Parallax end with equal checkpoints (ours by construction: without tables hybrid "
             "is an "
             "all-reduce)",
             "equal",
             "",
             {}},
            kArchitectures[2], kArchitectures[3]),
      equal(evidence,
            {"A synchronous parameter server ends with the same checkpoint as all-reduce",
             "different; explained by workers that do not wait, though all three are synchronous",
             "",
             {}},
            kArchitectures[1], kArchitectures[2]),
      stay_equal(cells)};
  report::StudyTable table{
      "Time of a step and test accuracy at the end (they have curves, no numbers)",
      {"architecture", "workers", "step ms", "theirs", "test accuracy", "theirs", "weights"},
      {}};
  report::Chart chart{"Test accuracy against steps", "step", "accuracy", {}};
  for (const Architecture& a : kArchitectures) {
    const Cell* cell = cell_of(cells, a);
    if (cell == nullptr) continue;
    table.rows.push_back({fmt::format("{} ({})", a.strategy, a.theirs), a.workers,
                          cell->summary.at("step_ms").at("median"), nullptr,
                          or_null(figure(cell, "test_accuracy")), nullptr,
                          cell->summary.at("parameters_sha256").get<std::string>().substr(0, 8)});
    report::Line line{a.strategy, {}, false};
    for (const auto& e : cell->summary.value("evaluations", nlohmann::json::array()))
      line.points.emplace_back(e.at("step").get<double>(), e.value("accuracy", 0.0));
    chart.lines.push_back(std::move(line));
  }
  out.tables = {std::move(table)};
  out.charts = {std::move(chart)};
  return out;
}

}  // namespace

Study deepfam() {
  return {
      .name = "deepfam",
      .title = "TensorFlow's servers, Horovod and Parallax on DeepFam, checkpoint by checkpoint",
      .ran =
          "Theirs: a CNN for protein families on GPCR sequences, 200 steps, Adam 0.001, batch 100, dropout "
          "and batch norm as in inference, data not cut into parts. Ours: the same network as its authors "
          "describe it, batch 100 of all workers together (quick: 20 steps of 16), data in parts. "
          "All runs are made with --reproducible and 4 shards: one order of sums, whoever forms them. So "
          "one process alone is compared, too, and two architectures that were not theirs, one of them with "
          "3 "
          "workers.",
      .plan = plan,
      .conclude = conclude};
}

}  // namespace tutti::lab::studies
