#include "train/prepare.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/process.h"
#include "checkpoint/checkpoint.h"
#include "exchange/strategy.h"
#include "models/model.h"
#include "train/open_data.h"
#include "train/plan.h"
#include "train/target.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunFiles[] = {"summary.json", "metrics.jsonl", "trace.json", "report.html"};

// What the data says of a network that nobody has told: how many classes or words there are.
void fit_to_data(const models::ModelInfo& model, const std::vector<Field>& native, config::TrainConfig& c) {
  for (const Field& f : native) {
    if (f.name == "label" && model.own.classes > 0 && c.classes == 0) c.classes = f.below;
    if (f.name == "tokens" && model.own.vocabulary > 0 && c.vocabulary == 0) c.vocabulary = f.below;
  }
}

void check_fits(const models::ModelInfo& model, const data::DatasetInfo& data, config::TrainConfig& c) {
  fit_to_data(model, data.format->native_fields({}), c);
  const auto fields = model.fields(options_of(c));
  try {
    data::require_form(data, fields);
  } catch (const ConfigError& e) {
    throw ConfigError(fmt::format("model {}: {}; {} would fit", model.name, e.what(), model.data));
  }
}

config::TrainConfig config_in(const checkpoint::Checkpoint& checkpoint) {
  try {
    return checkpoint.meta.at("config").get<config::TrainConfig>();
  } catch (const nlohmann::json::exception& e) {
    throw DataError(
        fmt::format("{}: no configuration of a run in it: {}", checkpoint.path.string(), e.what()));
  }
}

// What must be as it was, or the run would not be the one that it goes on.
void check_same_run(const config::TrainConfig& now, const config::TrainConfig& then,
                    const std::string& folder) {
  const nlohmann::json a = now;
  const nlohmann::json b = then;
  for (const char* key :
       {"model",          "classes",      "image_size", "vocabulary",     "embedding",      "hidden",
        "unroll",         "sampled",      "data",       "strategy",       "workers",        "batch",
        "global_batch",   "optimizer",    "lr",         "momentum",       "beta1",          "beta2",
        "alpha",          "trust",        "epsilon",    "weight_decay",   "scale_lr",       "warmup_steps",
        "schedule",       "step_size",    "gamma",      "min_lr",         "schedule_steps", "label_smoothing",
        "accumulate",     "clip_norm",    "precision",  "seed",           "servers",        "server_role",
        "backup_workers", "staleness",    "damp_stale", "pace_ms",        "sync_every",     "moving_rate",
        "partitions",     "bucket_bytes", "algorithm",  "transport",      "memory_format",  "threads",
        "crop",           "flip",         "cutout",     "sync_batchnorm", "no_sparse",      "no_overlap"}) {
    if (a[key] != b[key]) {
      throw ConfigError(fmt::format("--resume {}: that run has {} {}, this one {}", folder, key,
                                    b[key].dump(), a[key].dump()));
    }
  }
}

void prepare_resume(const config::TrainConfig& config, const RunPlan& plan, Setup& setup) {
  const auto latest = checkpoint::latest(config.resume);
  if (!latest) throw DataError(fmt::format("--resume {}: no finished checkpoint there", config.resume));
  const auto loaded = checkpoint::load(latest->path);  // all digests, before anything is started
  check_same_run(config, config_in(loaded), config.resume);
  if (latest->step >= plan.total_steps) {
    throw ConfigError(fmt::format("--resume {}: step {} of {} is done; ask for more with --steps or --epochs",
                                  config.resume, latest->step, plan.total_steps));
  }
  setup.checkpoint = latest->path.string();
  setup.first_step = latest->step;
  if (loaded.meta.contains("routes")) loaded.meta["routes"].get_to(setup.routes);
}

// Makes the folder, and sees that it can be written, before hours of training are lost for it.
void require_writable(const fs::path& out) {
  std::error_code e;
  fs::create_directories(out, e);
  if (e) throw ConfigError(fmt::format("--out {}: {}", out.string(), e.message()));
  try {
    write_file_atomically(out / ".writable", std::string_view());
  } catch (const RunError& error) {
    throw ConfigError(fmt::format("--out {}: {}", out.string(), error.what()));
  }
  fs::remove(out / ".writable", e);
}

void remove_files(const fs::path& folder, std::string_view that_begin_with) {
  if (!fs::is_directory(folder)) return;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(that_begin_with)) found.push_back(entry.path());
  }
  for (const auto& file : found) fs::remove(file);
}

// What a run did after the checkpoint that it goes on from, it does again; a line cut short by its end goes
// too.
void forget_later_steps(const fs::path& metrics, std::int64_t step) {
  if (!fs::exists(metrics)) return;
  std::istringstream lines(read_file(metrics));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("step", std::int64_t{0}) <= step) kept += line + "\n";
  }
  write_file_atomically(metrics, kept);
}

// Opens and checks all files, once for all workers of the host. Returns the training samples.
std::size_t prepare_data(const data::DatasetInfo& info, const DataPlaces& places,
                         const models::ModelInfo& model, config::TrainConfig& c, Prepared& prepared) {
  const auto located = data::locate(info, places.roots);
  fit_to_data(model, data::native_fields(info, located), c);
  const auto wanted = model.fields(options_of(c));
  auto plain = data::prepare(info, located, wanted, places.cache);
  prepared.setup.files = std::move(plain.files);
  prepared.keep_open = std::move(plain.keep_open);
  return data::open(info, prepared.setup.files[data::Part::training], wanted)->size();
}

}  // namespace

void to_json(nlohmann::json& json, const Setup& s) {
  json = {{"config", s.config},
          {"training_files", s.files[data::Part::training]},
          {"test_files", s.files[data::Part::test]},
          {"checkpoint", s.checkpoint.value_or("")},
          {"first_step", s.first_step},
          {"routes", s.routes}};
}

void from_json(const nlohmann::json& json, Setup& s) {
  json.at("config").get_to(s.config);
  json.at("training_files").get_to(s.files[data::Part::training]);
  json.at("test_files").get_to(s.files[data::Part::test]);
  const auto checkpoint = json.at("checkpoint").get<std::string>();
  if (!checkpoint.empty()) s.checkpoint = checkpoint;
  json.at("first_step").get_to(s.first_step);
  json.at("routes").get_to(s.routes);
}

void make_run_folder(const Setup& setup) {
  const fs::path out = setup.config.out;
  require_writable(out);
  if (setup.checkpoint && fs::weakly_canonical(out) == fs::weakly_canonical(setup.config.resume)) {
    return forget_later_steps(out / "metrics.jsonl", setup.first_step);
  }
  for (const char* file : kRunFiles) fs::remove(out / file);
  remove_files(out / "samples", "step-");
  remove_files(out / "tensorboard", "events.out.tfevents.");
  remove_files(out, "samples-rank-");
  for (const auto& step : checkpoint::list(out)) remove_tree(step.path);
}

void remove_unfinished_checkpoints(const std::string& run_folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(run_folder) / "checkpoints", ignored)) {
    if (entry.path().extension() == ".partial") remove_tree(entry.path(), ignored);
  }
}

config::TrainConfig config_of_run(const std::string& run_folder) {
  const auto latest = checkpoint::latest(run_folder);
  if (!latest) throw DataError(fmt::format("--resume {}: no finished checkpoint there", run_folder));
  return config_in(checkpoint::load(latest->path));
}

namespace {

// Servers hold pieces of buckets: what looks at more than that is the workers' to do.
void resolve_server_role(const exchange::Strategy& strategy, config::TrainConfig& c) {
  const bool pieces = strategy.servers && !strategy.hybrid;
  const bool sync = pieces && strategy.servers == ps::Consistency::sync;
  std::string whole;
  if (optim::needs_layers(optim::parse_kind(c.optimizer))) {
    whole = fmt::format("--optimizer {} looks at whole layers", c.optimizer);
  } else if (sync && c.clip_norm > 0) {
    whole = fmt::format("--clip-norm {} takes the norm of the whole gradient", c.clip_norm);
  }
  if (c.server_role == "auto") c.server_role = sync && !whole.empty() ? "sum" : "update";
  if (pieces && !whole.empty() && c.server_role == "update") {
    throw ConfigError(fmt::format("--strategy {}: {}, and servers that update hold pieces; use {}",
                                  c.strategy, whole,
                                  sync ? "--server-role sum" : "ps-sync, hybrid or allreduce"));
  }
  if (!whole.empty() && c.backup_workers > 0) {
    throw ConfigError(
        fmt::format("{}, so workers update, and one that is late (--backup-workers {}) would "
                    "miss updates; leave one of the two out",
                    whole, c.backup_workers));
  }
}

// Fits servers, workers and strategy together, or says why they do not fit.
void resolve_servers(const exchange::Strategy& strategy, const models::ModelInfo& model,
                     config::TrainConfig& c) {
  const auto refuse_if = [&](bool wrong, const std::string& what) {
    if (wrong) throw ConfigError(fmt::format("--strategy {}: {}", c.strategy, what));
  };
  const bool sync = strategy.servers == ps::Consistency::sync && !strategy.hybrid;
  resolve_server_role(strategy, c);
  if (!strategy.servers) {
    refuse_if(
        c.servers > 0 || c.colocate,
        fmt::format("has no servers, --servers {} does not fit; ps-sync, ps-async, ps-ssp and hybrid have",
                    c.servers));
  } else if (c.servers == 0) {
    c.servers = c.colocate ? c.workers : 1;
  }
  refuse_if(c.colocate && c.servers != c.workers,
            fmt::format("--colocate puts a server into each of {} workers, not {}", c.workers, c.servers));
  refuse_if(c.servers > model.parameters,
            fmt::format("--servers {} for the {} parameters of {}", c.servers, model.parameters, model.name));
  refuse_if(c.backup_workers > 0 && !sync,
            fmt::format("--backup-workers {} is for ps-sync", c.backup_workers));
  refuse_if(c.server_role != "update" && !sync,
            fmt::format("--server-role {} is for ps-sync", c.server_role));
  refuse_if(c.server_role != "update" && c.backup_workers > 0,
            "--server-role sum does not fit --backup-workers: a late worker would miss updates");
  refuse_if(c.local_aggregation && (!sync || c.backup_workers > 0),
            "--local-aggregation is for ps-sync without --backup-workers");
  refuse_if(
      c.local_aggregation && c.server_role == "update" && c.on_nonfinite == "skip",
      "--on-nonfinite skip needs a whole gradient before any of it leaves, which --local-aggregation does "
      "not have where servers update; use --server-role sum");
  refuse_if(
      !c.partitions.empty() && !exchange::takes_rows(strategy, tuning_of(c)),
      fmt::format("--partitions {} is for strategies that exchange embedding tables by rows: ps-* whose "
                  "servers update, without --local-aggregation, and hybrid{}{}",
                  c.partitions, strategy.servers ? "; here tables travel whole: " : "",
                  strategy.servers ? exchange::why_whole_tables(tuning_of(c)) : ""));
  refuse_if(strategy.name == "hogwild" && c.transport == "tcp", "needs --transport shm");
  refuse_if(
      c.sync_batchnorm && (strategy.apart || strategy.drifts || c.backup_workers > 0),
      "--sync-batchnorm needs workers that keep step: ring, allreduce, reduce-broadcast, hybrid, or ps-sync "
      "without --backup-workers");
  if (c.pace_ms > 0) c.no_evaluate = true;  // there is nothing to evaluate
}

// Statistics over all workers are made when all compute a part of the step.
void check_synchronised(const config::TrainConfig& c, const RunPlan& plan, std::size_t samples) {
  if (!c.sync_batchnorm) return;
  const std::int64_t last = static_cast<std::int64_t>(samples) % (plan.batch * c.workers);
  const auto parts = [&](std::int64_t share) { return (share + plan.micro_batch - 1) / plan.micro_batch; };
  if (parts(last / c.workers) != parts((last + c.workers - 1) / c.workers)) {
    throw ConfigError(
        fmt::format("--sync-batchnorm: the {} samples of an epoch's last step leave some of the {} workers "
                    "without a share; choose another --batch",
                    last, c.workers));
  }
}

}  // namespace

Prepared prepare(config::TrainConfig c, const DataPlaces& places, std::optional<int> threads_wish,
                 const std::string& now) {
  config::validate(c);
  if (!c.emulate.empty()) c.transport = "tcp";
  const auto& strategy = exchange::find_strategy(c.strategy);
  if (strategy.one_worker_only && c.workers != 1) {
    throw ConfigError(fmt::format("--strategy {} has one worker, not {}", c.strategy, c.workers));
  }
  exchange::algorithm_of(strategy, c.algorithm);
  optimizer_settings(c);
  const auto& model = models::find_model(c.model);
  if (c.label_smoothing > 0 && model.own.classes == 0) {
    throw ConfigError(fmt::format("--label-smoothing {} is for models that tell classes apart; {} does not",
                                  c.label_smoothing, model.name));
  }
  if (c.clip_norm > 0 && model.phases > 1) {
    throw ConfigError(fmt::format("--clip-norm {} is for models that learn in one phase; {} has {}",
                                  c.clip_norm, model.name, model.phases));
  }
  if (c.device_tflops > 0) {
    c.pace_ms = pace_of(c, model);
    c.device_tflops = 0;
  }
  resolve_servers(strategy, model, c);
  target_of(c, model);
  std::optional<data::DatasetInfo> info;  // none: made up
  if (c.data != kSynthetic) info = data::find_dataset(c.data);
  info ? check_fits(model, *info, c) : void(model.fields(options_of(c)));

  if (augment_of(c).any()) data::Augment(augment_of(c), model.fields(options_of(c)), c.seed);

  if (c.memory_format == "auto") c.memory_format = model.channels_last ? "channels-last" : "contiguous";
  if (c.transport == "auto") c.transport = "shm";
  if (c.threads == 0) {
    const int share = static_cast<int>(allowed_cores().size()) / c.workers;
    c.threads = threads_wish.value_or(std::max(1, share));
  }
  if (c.out.empty())
    c.out = c.resume.empty() ? fmt::format("runs/{}-{}-{}", c.model, c.strategy, now) : c.resume;

  Prepared prepared;
  const std::size_t samples = info ? prepare_data(*info, places, model, c, prepared) : kSyntheticSamples[0];
  const RunPlan plan = make_plan(c, samples);
  check_synchronised(c, plan, samples);
  // Fixed now, so that a longer run that goes on from this one has the same rates.
  if (c.scale_lr) c.warmup_steps = plan.schedule.warm_up.steps;
  if (c.schedule == "cosine") c.schedule_steps = plan.schedule.end;
  if (!c.resume.empty()) prepare_resume(c, plan, prepared.setup);
  prepared.setup.config = std::move(c);
  return prepared;
}

}  // namespace tutti::train
