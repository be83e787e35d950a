#include "lab/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/version.h"
#include "engines/engines.h"
#include "exchange/strategy.h"
#include "observe/summary.h"
#include "train/strategy_settings.h"

namespace tutti::lab {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const CompareSpec& spec, const Cell& cell, int repeat) {
  return fmt::format("{}/{}{}-{}{}{}", spec.base.out,
                     spec.models.size() > 1 ? std::filesystem::path(cell.model).stem().string() + "-" : "",
                     cell.strategy, cell.variant.empty() ? "" : cell.variant + "-", cell.workers,
                     repeat > 1 ? fmt::format("-repeat-{}", repeat) : "");
}

void plan_cell(const CompareSpec& spec, Cell cell, std::vector<Cell>& cells) {
  cell.folder = folder_of(spec, cell, 1);
  for (int r = 1; r <= spec.repeats; ++r) cell.repeats.push_back({folder_of(spec, cell, r), nullptr});
  if (std::ranges::find(cells, cell.folder, &Cell::folder) == cells.end()) cells.push_back(std::move(cell));
}

void plan_model(const CompareSpec& spec, const std::string& model, std::vector<Cell>& cells) {
  for (const std::string& name : spec.strategies) {
    const auto& strategy = exchange::find_strategy(name);
    for (const std::string& engine : spec.engines) {
      const std::string variant = spec.engines.size() > 1 ? engine : "";
      for (const int workers : spec.workers) {
        if (strategy.one_worker_only && workers != 1) continue;
        if (workers == 1 && engine != spec.engines.front()) continue;
        plan_cell(spec,
                  {.strategy = name,
                   .workers = workers,
                   .folder = {},
                   .summary = nullptr,
                   .failure = {},
                   .model = model,
                   .variant = workers == 1 ? "" : variant,
                   .engine = engine},
                  cells);
      }
    }
  }
}

// Each run by itself would cut its batch into the shards, and make steps of the samples, that its own number
// of workers has: trainings that never end with the same bits.
config::TrainConfig of_one_training(config::TrainConfig base, const std::vector<Cell>& cells) {
  if (!base.reproducible || cells.empty()) return base;
  const auto [fewest, most] = std::ranges::minmax_element(cells, {}, &Cell::workers);
  if (fewest->workers != most->workers && base.global_batch == 0) {
    throw ConfigError(
        fmt::format("--reproducible with {} and with {} workers: --batch {}, a worker's, makes another "
                    "global batch of each "
                    "number of workers; give --global-batch",
                    fewest->workers, most->workers, base.batch));
  }
  if (base.shards == 0) base.shards = config::usual_shards(std::max(1, most->workers));
  return base;
}

// The first cell that the digest of another must be equal to: the same model, and what `also` asks.
std::string differs_from(const std::vector<Cell>& cells, const Cell& cell, const char* digest,
                         const auto& also) {
  for (const Cell& other : cells) {
    if (&other == &cell) return "";
    if (other.summary.is_null() || other.model != cell.model || !also(other)) continue;
    if (other.summary.value(digest, "") == cell.summary.value(digest, "")) return "";
    return name_of(other);
  }
  return "";
}

}  // namespace

std::vector<Cell> plan_cells(const CompareSpec& spec) {
  std::vector<Cell> cells;
  for (const std::string& engine : spec.engines)
    engines::find_engine(engine);  // throws where it cannot be used
  for (const std::string& model : spec.models) plan_model(spec, model, cells);
  return cells;
}

config::TrainConfig config_of(const Cell& cell, const report::Repeat& repeat,
                              const config::TrainConfig& base) {
  config::TrainConfig c = base;
  c.model = cell.model;
  c.strategy = cell.strategy;
  c.workers = cell.workers;
  if (!cell.engine.empty()) c.engine = cell.engine;
  c.out = repeat.folder;
  train::reset_others_settings(exchange::find_strategy(c.strategy), c);
  return c;
}

std::vector<PlannedRun> plan_runs(const CompareSpec& spec) {
  std::vector<PlannedRun> runs;
  auto cells = plan_cells(spec);
  const auto base = of_one_training(spec.base, cells);
  for (Cell& cell : cells) {
    auto config = config_of(cell, cell.repeats.front(), base);
    runs.push_back({std::move(cell), std::move(config)});
  }
  return runs;
}

nlohmann::json finished_run(const train::Setup& resolved, const fs::path& program) {
  const auto path = fs::path(resolved.config.out) / observe::kSummaryFile;
  std::error_code none;
  const auto written = fs::last_write_time(path, none);
  if (none || written < fs::last_write_time(program)) return nullptr;
  try {
    auto json = observe::read_summary_json(resolved.config.out);
    const auto summary = json.get<observe::Summary>();
    nlohmann::json wanted = resolved.config;
    wanted["out"] = summary.config.value("out", "");
    const bool same_files = summary.data_sha256 == resolved.data_sha256 &&
                            summary.model_sha256.value_or("") == resolved.model_sha256;
    return summary.config == wanted && same_files && summary.version == kVersion ? json : nullptr;
  } catch (const DataError&) {
    return nullptr;  // damaged: it is run again
  }
}

namespace {

// A study may have runs of other lengths and batches beside each other.
bool asked_for_the_same_samples(const Cell& a, const Cell& b) {
  const auto asked = [](const Cell& cell) {
    const auto config = cell.summary.value("config", nlohmann::json::object());
    nlohmann::json all;
    for (const char* key : {"steps", "epochs", "batch", "global_batch", "accumulate", "shards"}) {
      all.push_back(config.value(key, 0));
    }
    return all;
  };
  return a.workers == b.workers && asked(a) == asked(b);
}

}  // namespace

void verify(std::vector<Cell>& cells) {
  for (Cell& cell : cells) {
    cell.doubt.clear();
    if (cell.summary.is_null()) continue;
    const auto keeps_step = [](const Cell& c) { return !exchange::find_strategy(c.strategy).asynchronous; };
    const auto weights =
        differs_from(cells, cell, "initial_parameters_sha256", [](const Cell&) { return true; });
    const auto samples = differs_from(cells, cell, "samples_sha256", [&](const Cell& other) {
      return keeps_step(cell) && keeps_step(other) && asked_for_the_same_samples(cell, other);
    });
    if (!observe::replicas_agree(cell.summary.get<observe::Summary>())) {
      cell.doubt = "its replicas differ";
    } else if (!weights.empty()) {
      cell.doubt = "began with other weights than " + weights;
    } else if (!samples.empty()) {
      cell.doubt = "used other samples than " + samples;
    }
  }
}

}  // namespace tutti::lab
