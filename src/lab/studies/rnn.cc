// Study D: an LSTM on MNIST's rows under TensorFlow's servers, Horovod and Parallax; and a GAN that they
// could not make work.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lab/studies/studies.h"

namespace tutti::lab::studies {
namespace {

constexpr const char* kRnn = "rnn-mnist";
constexpr const char* kGan = "gan-mnist";
constexpr int kSteps[] = {50, 100, 150};

struct Architecture {
  const char* strategy;
  int workers;
  const char* theirs;
  const char* accuracy[3];  // at kSteps; what is damaged in the text is missing
  const char* steps_per_second;
};
constexpr Architecture kArchitectures[] = {
    {"ps-sync", 2, "parameter server", {"0.47 to 0.49", "0.68 to 0.73", "0.77 to 0.78"}, "11.6"},
    {"allreduce", 3, "Horovod", {"0.43", nullptr, "0.74"}, "11.6 to 12.4"},
    {"hybrid", 3, "Parallax", {"about 0.89", "about 0.89", nullptr}, "8.8 to 9.7"}};

constexpr const char* kSynchronous[] = {"ring", "allreduce", "reduce-broadcast", "ps-sync", "hybrid"};

std::vector<PlannedRun> plan(Scale scale, const std::string& folder) {
  std::vector<PlannedRun> runs;
  for (const Architecture& a : kArchitectures) {
    config::TrainConfig c;
    c.model = kRnn;
    c.data = "mnist";
    c.strategy = a.strategy;
    c.workers = a.workers;
    c.batch = 32;
    c.lr = 0.001;
    c.steps = kSteps[2];
    c.evaluate_every = kSteps[0];
    c.threads = 1;
    runs.push_back(planned(folder, c, {}, 2));
  }
  for (const char* strategy : kSynchronous) {
    config::TrainConfig c;
    c.model = kGan;
    c.data = "mnist";
    c.strategy = strategy;
    c.workers = 2;
    c.batch = 64;
    c.lr = 0.0002;
    c.epochs = scale == Scale::full ? 4 : 1;
    c.threads = 1;
    runs.push_back(planned(folder, c));
  }
  return runs;
}

nlohmann::json accuracy_at(const Cell* cell, int step) {
  if (cell == nullptr) return nullptr;
  for (const auto& e : cell->summary.value("evaluations", nlohmann::json::array())) {
    if (e.at("step") == step) return e.value("accuracy", nlohmann::json());
  }
  return nullptr;
}

const Cell* cell_of(const std::vector<Cell>& cells, const Architecture& a) {
  return find_cell(cells, {kRnn, a.strategy, a.workers});
}

report::Claim parallax_learns_faster(const std::vector<Cell>& cells) {
  report::Claim claim{
      "Parallax learns faster than Horovod: it is far ahead after 50 steps", "0.89 against 0.43", "", {}};
  const auto horovod = accuracy_at(cell_of(cells, kArchitectures[1]), 50);
  const auto parallax = accuracy_at(cell_of(cells, kArchitectures[2]), 50);
  if (horovod.is_null() || parallax.is_null()) return claim;
  const double ahead = parallax.get<double>() - horovod.get<double>();
  claim.ours = fmt::format(
      "{:.4f} against {:.4f}: this network has no tables, so hybrid is an all-reduce of the same samples",
      parallax.get<double>(), horovod.get<double>());
  claim.holds = ahead >= 0.1;
  return claim;
}

// Every repeat of every cell of the network ended with the bits of the first.
report::Claim deterministic(const std::vector<Cell>& cells) {
  report::Claim claim{
      "Two runs of the same command end with the same bits", "runs could not be made deterministic", "", {}};
  for (const Architecture& a : kArchitectures) {
    const Cell* cell = cell_of(cells, a);
    if (cell == nullptr || cell->repeats.size() < 2) continue;
    const auto& digest = cell->summary.at("parameters_sha256");
    const bool same = std::ranges::all_of(cell->repeats, [&](const report::Repeat& r) {
      return r.summary.is_object() && r.summary.value("parameters_sha256", nlohmann::json()) == digest;
    });
    claim.ours +=
        fmt::format("{}{}: {}", claim.ours.empty() ? "" : "; ", a.strategy, same ? "the same" : "other bits");
    claim.holds = claim.holds.value_or(true) && same;
  }
  return claim;
}

report::Claim gan_trains(const std::vector<Cell>& cells) {
  report::Claim claim{"The GAN trains under every synchronous architecture",
                      "it could not be made to work distributed",
                      "",
                      {}};
  std::size_t trained = 0;
  std::set<std::string> ends;
  std::vector<double> accuracies;
  for (const char* strategy : kSynchronous) {
    const Cell* cell = find_cell(cells, {kGan, strategy, 2});
    const auto accuracy = figure(cell, "test_accuracy");
    if (!accuracy) continue;
    trained += *accuracy > 0.5 ? 1 : 0;
    accuracies.push_back(*accuracy * 100);
    ends.insert(cell->summary.at("parameters_sha256").get<std::string>());
  }
  if (accuracies.empty()) return claim;
  claim.ours = fmt::format(
      "{} of {}, {}; the discriminator is right in {:.1f} % or more, which says that it learns, not that the "
      "generator does",
      trained, std::size(kSynchronous), ends.size() == 1 ? "all to the same bits" : "not to the same bits",
      std::ranges::min(accuracies));
  claim.holds = trained == std::size(kSynchronous);
  return claim;
}

report::StudyTable accuracies(const std::vector<Cell>& cells) {
  report::StudyTable t{
      "Test accuracy and steps a second, theirs (on 4 cores) beside ours", {"architecture", "workers"}, {}};
  for (const int step : kSteps) {
    t.header.push_back(fmt::format("step {}, theirs", step));
    t.header.emplace_back("ours");
  }
  t.header.insert(t.header.end(), {"steps/s, theirs", "ours"});
  for (const Architecture& a : kArchitectures) {
    const Cell* cell = cell_of(cells, a);
    std::vector<nlohmann::json> row = {fmt::format("{} ({})", a.strategy, a.theirs), a.workers};
    for (std::size_t i = 0; i < std::size(kSteps); ++i) {
      row.push_back(a.accuracy[i] == nullptr ? nlohmann::json() : nlohmann::json(a.accuracy[i]));
      row.push_back(accuracy_at(cell, kSteps[i]));
    }
    row.emplace_back(a.steps_per_second);
    row.push_back(or_null(figure(cell, "steps_per_second")));
    t.rows.push_back(std::move(row));
  }
  return t;
}

report::StudyTable gans(const std::vector<Cell>& cells) {
  report::StudyTable t{
      "The GAN with 2 workers (they have no figures)",
      {"architecture", "discriminator's loss", "its accuracy", "generator's loss", "weights"},
      {}};
  for (const char* strategy : kSynchronous) {
    const Cell* cell = find_cell(cells, {kGan, strategy, 2});
    if (cell == nullptr) continue;
    t.rows.push_back({strategy, or_null(figure(cell, "test_discriminator_loss")),
                      or_null(figure(cell, "test_accuracy")), or_null(figure(cell, "test_generator_loss")),
                      cell->summary.at("parameters_sha256").get<std::string>().substr(0, 8)});
  }
  return t;
}

report::StudyResult conclude(const Evidence& evidence) {
  const auto& cells = evidence.cells;
  report::StudyResult out;
  out.claims = {parallax_learns_faster(cells), deterministic(cells), gan_trains(cells)};
  out.tables = {accuracies(cells), gans(cells)};
  report::Chart chart{"Test accuracy against steps", "step", "accuracy", {}};
  for (const Architecture& a : kArchitectures) {
    report::Line line{a.strategy, {}, false};
    for (const int step : kSteps) {
      const auto y = accuracy_at(cell_of(cells, a), step);
      if (!y.is_null()) line.points.emplace_back(step, y.get<double>());
    }
    chart.lines.push_back(std::move(line));
  }
  // What is legible of theirs, where they give a range its middle.
  chart.lines.push_back({"theirs: parameter server", {{50, 0.48}, {100, 0.705}, {150, 0.775}}, true});
  chart.lines.push_back({"theirs: Horovod", {{50, 0.43}, {150, 0.74}}, true});
  chart.lines.push_back({"theirs: Parallax", {{50, 0.89}, {100, 0.89}}, true});
  out.charts = {std::move(chart)};
  return out;
}

}  // namespace

Study rnn() {
  return {
      .name = "rnn",
      .title = "TensorFlow's servers, Horovod and Parallax on an LSTM",
      .ran =
          "Theirs: MNIST's rows into an LSTM of 64 units, Adam 0.001, batch 32, 4 cores; some of their "
          "figures are "
          "damaged in the text and missing here. Ours: the same network, each run twice, and the GAN "
          "that they "
          "wanted under every synchronous strategy. What is asked of the GAN is that its discriminator is "
          "right in more than half of all cases; a generator that draws well makes that harder, so the "
          "check does not judge its drawings. Its ends are the same bits because two workers' sums do not "
          "depend on an order; with three or more, architectures may add in different ones.",
      .plan = plan,
      .conclude = conclude};
}

}  // namespace tutti::lab::studies
