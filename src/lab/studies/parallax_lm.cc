// Parallax's own workload: a language model with a large vocabulary, whose tables are sparse, and a dense
// network beside it.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "lab/studies/studies.h"

namespace tutti::lab::studies {
namespace {

constexpr int kHosts = 4;
constexpr const char* kLanguage = "lstm-lm";
constexpr const char* kDense = "resnet50";
constexpr const char* kHybrid = "hybrid";
constexpr const char* kWhole = "whole tables";
// What a TITAN Xp, of which they had 48, gets of its peak of 12.
constexpr double kDeviceTflops = 6;

// What hybrid is held against on the language model.
struct Rival {
  const char* label;  // of its cell
  double asked;       // how many times as fast hybrid must be at least
  double theirs;      // how many times as fast theirs was
  const char* claim;
  const char* reported;
};
constexpr Rival kRivals[] = {
    {"allreduce", 6, 6.02, "On a sparse model hybrid is several times as fast as all-reduce of whole tables",
     "up to 6.02 times, on 48 GPUs, against Horovod, which gathers the touched rows alone"},
    {"ps-sync, whole tables", 2, 2.8,
     "On a sparse model hybrid is several times as fast as parameter servers that send all",
     "up to 2.8 times, on 48 GPUs, against tuned TensorFlow servers, which send the touched rows alone"}};

config::TrainConfig base_of(const char* model, const char* strategy, std::int64_t steps) {
  config::TrainConfig c;
  c.model = model;
  c.data = "synthetic";
  c.strategy = strategy;
  c.workers = kHosts;
  c.steps = steps;
  c.threads = 1;
  c.device_tflops = kDeviceTflops;
  c.emulate = fmt::format("hosts={},link=1gbit", kHosts);
  c.no_checkpoint = true;
  c.timeout_s = 120;
  if (c.model == kLanguage) {
    c.vocabulary = 100'000;
    c.optimizer = "adagrad";
    c.lr = 0.2;
    c.batch = 128;
  } else {
    c.optimizer = "sgd";
    c.batch = 32;
  }
  return c;
}

std::vector<PlannedRun> plan(Scale scale, const std::string& folder) {
  const bool full = scale == Scale::full;
  const auto servers = [](config::TrainConfig c) {
    c.colocate = true;
    return c;
  };
  const std::int64_t steps = full ? 12 : 4;
  auto whole = servers(base_of(kLanguage, "ps-sync", steps));
  whole.no_sparse = true;
  std::vector<PlannedRun> runs = {planned(folder, servers(base_of(kLanguage, kHybrid, steps))),
                                  planned(folder, base_of(kLanguage, "allreduce", steps)),
                                  planned(folder, whole, kWhole)};
  if (full) runs.push_back(planned(folder, servers(base_of(kLanguage, "ps-sync", steps))));
  const int repeats = full ? 3 : 1;
  runs.push_back(planned(folder, servers(base_of(kDense, kHybrid, 2 * steps)), {}, repeats));
  runs.push_back(planned(folder, base_of(kDense, "allreduce", 2 * steps), {}, repeats));
  return runs;
}

// Samples a second of the median step.
std::optional<double> speed_of(const Cell* cell) {
  if (cell == nullptr) return std::nullopt;
  return figure(cell, "batch_per_worker").value() * kHosts * 1000 /
         cell->summary.at("step_ms").at("median").get<double>();
}

// Hybrid as a multiple of another.
std::optional<double> ratio(const std::vector<Cell>& cells, const char* model, const std::string& other) {
  const auto hybrid = speed_of(find_cell(cells, {model, kHybrid, kHosts}));
  const auto against = speed_of(find_cell(cells, {model, other, kHosts}));
  if (!hybrid || !against) return std::nullopt;
  return *hybrid / *against;
}

report::Claim at_least(const Rival& rival, std::optional<double> times) {
  report::Claim claim{rival.claim, rival.reported, "", {}};
  if (!times) return claim;
  claim.ours = fmt::format("{:.2f} times; asked: at least {}", *times, rival.asked);
  claim.holds = *times >= rival.asked;
  return claim;
}

// How many times as fast theirs was as this rival, where they say so.
nlohmann::json theirs_against(const Cell& cell) {
  if (cell.model != kLanguage) return {};
  const auto rival = std::ranges::find(kRivals, label_of(cell), &Rival::label);
  return rival == std::end(kRivals) ? nlohmann::json() : nlohmann::json(rival->theirs);
}

report::Claim as_fast_when_dense(std::optional<double> times) {
  report::Claim claim{
      "On a dense network hybrid is as fast as all-reduce (by construction: without tables it is one)",
      "all-reduce's speed",
      "",
      {}};
  if (!times) return claim;
  claim.ours = fmt::format("{:.3f} times {} by all-reduce; asked: within 3 %", *times, kDense);
  claim.holds = *times >= 0.97 && *times <= 1.03;
  return claim;
}

report::StudyResult conclude(const Evidence& evidence) {
  const auto& cells = evidence.cells;
  report::StudyResult out;
  for (const Rival& rival : kRivals)
    out.claims.push_back(at_least(rival, ratio(cells, kLanguage, rival.label)));
  out.claims.push_back(as_fast_when_dense(ratio(cells, kDense, "allreduce")));
  report::StudyTable table{
      "Speed and traffic with 4 workers (emulated links of 1gbit, paced as a device of 6 TFLOPS)",
      {"network", "architecture", "samples/s", "words/s", "step ms", "MB a worker sends a step",
       "hybrid is faster by", "they reported, of stronger rivals"},
      {}};
  for (const Cell& c : cells) {
    const Cell* cell = find_cell(cells, {c.model, label_of(c), c.workers});
    if (cell == nullptr) continue;
    const bool language = c.model == kLanguage;
    const auto label = label_of(c);
    const double words =
        language ? *figure(cell, "words_per_second") / *figure(cell, "samples_per_second") : 0;
    const bool is_hybrid = cell == find_cell(cells, {c.model, kHybrid, kHosts});
    table.rows.push_back({c.model, label, or_null(speed_of(cell)),
                          language ? nlohmann::json(*speed_of(cell) * words) : nlohmann::json(),
                          c.summary.at("step_ms").at("median"),
                          *figure(cell, "bytes_sent_per_worker") / *figure(cell, "steps") / 1e6,
                          is_hybrid ? nlohmann::json() : or_null(ratio(cells, c.model.c_str(), label)),
                          theirs_against(c)});
  }
  out.tables = {std::move(table)};
  return out;
}

}  // namespace

Study parallax_lm() {
  return {
      .name = "parallax-lm",
      .title = "Parallax: sparse tables by servers, dense gradients by all-reduce",
      .ran =
          "Theirs: a language model with an embedding of 512, an LSTM of 2048 projected to 512, sampled "
          "softmax, Adagrad 0.2, batch 128, 20 words; 48 GPUs. Ours: that network with 100,000 words and "
          "resnet50, 4 workers on 4 emulated hosts with links of 1 Gbit/s, a server beside each worker; "
          "computing is paced as a device of 6 TFLOPS would, not done, and gradients are not clipped. Our "
          "rivals "
          "are weaker than theirs: an all-reduce and servers that send whole tables, where theirs sent the "
          "touched rows alone. Servers that do so are in the table (ps-sync) and in no claim; in our full "
          "run they were a little faster than hybrid.",
      .plan = plan,
      .conclude = conclude};
}

}  // namespace tutti::lab::studies
