#include "train/prepare.h"

#include <algorithm>

#include "base/error.h"
#include "base/process.h"
#include "config/emulation.h"
#include "config/hosts.h"
#include "engines/engines.h"
#include "exchange/servers.h"
#include "exchange/strategy.h"
#include "models/model.h"
#include "net/wire.h"
#include "train/open_data.h"
#include "train/plan.h"
#include "train/replica_check.h"
#include "train/resume.h"
#include "train/run_folder.h"
#include "train/step_watch.h"
#include "train/strategy_settings.h"
#include "train/target.h"

namespace tutti::train {
namespace {

// What the data says of a network that nobody has told: how many classes or words there are.
void fit_to_data(const models::ModelInfo& model, const std::vector<Field>& native, config::TrainConfig& c) {
  for (const Field& f : native) {
    if (f.name == "label" && model.own.classes > 0 && c.classes == 0) c.classes = f.below;
    if (f.name == "tokens" && model.own.vocabulary > 0 && c.vocabulary == 0) c.vocabulary = f.below;
    if (f.name == "features" && model.own.inputs > 0 && c.inputs == 0) {
      c.inputs = static_cast<std::int64_t>(f.count());
    }
  }
}

void check_fits(const models::ModelInfo& model, const data::DatasetInfo& data, config::TrainConfig& c) {
  if (model.takes_any_data()) return;
  fit_to_data(model, data.format->native_fields({}), c);
  const auto fields = model.fields(options_of(c));
  try {
    data::require_form(data, fields);
  } catch (const ConfigError& e) {
    throw ConfigError(fmt::format("model {}: {}; {} would fit", model.name, e.what(), model.data));
  }
}

// Opens and checks all files, once for all workers of the host. Returns the training samples.
std::size_t prepare_data(const data::DatasetInfo& info, const DataPlaces& places,
                         const models::ModelInfo& model, config::TrainConfig& c, Prepared& prepared) {
  const auto located = data::locate(info, places.roots);
  const auto native = data::native_fields(info, located);
  fit_to_data(model, native, c);
  const auto wanted = model.takes_any_data() ? native : model.fields(options_of(c));
  prepared.setup.fields = wanted;
  auto plain = data::prepare(info, located, wanted, places.cache);
  prepared.setup.files = std::move(plain.files);
  prepared.keep_open = std::move(plain.keep_open);
  return data::open(info, prepared.setup.files[data::Part::training], wanted)->size();
}

nlohmann::json json_of(const std::vector<Field>& fields) {
  auto list = nlohmann::json::array();
  for (const Field& f : fields) {
    list.push_back(
        {{"name", f.name}, {"type", static_cast<int>(f.type)}, {"shape", f.shape}, {"below", f.below}});
  }
  return list;
}

std::vector<Field> fields_from(const nlohmann::json& list) {
  std::vector<Field> fields;
  for (const auto& f : list) {
    fields.push_back(
        {f.at("name"), static_cast<DType>(f.at("type").get<int>()), f.at("shape"), f.at("below")});
  }
  return fields;
}

}  // namespace

void to_json(nlohmann::json& json, const Setup& s) {
  json = {{"config", s.config},
          {"fields", json_of(s.fields)},
          {"training_files", s.files[data::Part::training]},
          {"test_files", s.files[data::Part::test]},
          {"checkpoint", s.checkpoint.value_or("")},
          {"first_step", s.first_step},
          {"routes", s.routes},
          {"total_steps", s.total_steps},
          {"data_sha256", s.data_sha256},
          {"model_sha256", s.model_sha256},
          {"chosen", s.chosen},
          {"restarts", s.restarts}};
  if (s.ledger) json["ledger"] = *s.ledger;
}

void from_json(const nlohmann::json& json, Setup& s) {
  json.at("config").get_to(s.config);
  s.fields = fields_from(json.at("fields"));
  json.at("training_files").get_to(s.files[data::Part::training]);
  json.at("test_files").get_to(s.files[data::Part::test]);
  const auto checkpoint = json.at("checkpoint").get<std::string>();
  if (!checkpoint.empty()) s.checkpoint = checkpoint;
  json.at("first_step").get_to(s.first_step);
  json.at("routes").get_to(s.routes);
  json.at("total_steps").get_to(s.total_steps);
  json.at("data_sha256").get_to(s.data_sha256);
  json.at("model_sha256").get_to(s.model_sha256);
  json.at("chosen").get_to(s.chosen);
  json.at("restarts").get_to(s.restarts);
  if (json.contains("ledger")) s.ledger = json["ledger"].get<std::vector<EpochSums>>();
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
  if (sync && c.server_role == "auto") c.server_role = whole.empty() ? "update" : "sum";
  if (pieces && !whole.empty() && c.server_role != "sum") {
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

// By worker, the host that it will be on; `started_on` says it where another launcher has started them.
std::vector<int> hosts_of_workers(const config::TrainConfig& c, std::span<const int> started_on) {
  std::vector<int> hosts(started_on.begin(), started_on.end());
  if (const auto emulation = config::parse_emulation(c.emulate)) {
    for (int w = 0; w < c.workers; ++w) hosts.push_back(emulation->hosts > 0 ? w % emulation->hosts : w);
  }
  int number = 0;
  for (const auto& host : config::parse_hosts(c.hosts)) {
    hosts.insert(hosts.end(), static_cast<std::size_t>(host.slots), number++);
  }
  hosts.resize(static_cast<std::size_t>(c.workers));
  return hosts;
}

// Chosen where it can be and nobody says otherwise.
void resolve_local_aggregation(const exchange::Strategy& strategy, const engines::EngineInfo& engine,
                               const models::ModelInfo& model, std::span<const int> hosts,
                               config::TrainConfig& c) {
  if (c.local_aggregation && !engine.joins_neighbours && exchange::share_hosts(hosts)) {
    throw ConfigError(fmt::format(
        "--local-aggregation does not fit --engine {}, which cannot add up among the workers of one "
        "of several hosts; use --engine native",
        engine.name));
  }
  if (!c.no_local_aggregation && engine.joins_neighbours &&
      exchange::push_as_one(strategy, tuning_of(c), hosts, model.has_tables)) {
    c.local_aggregation = true;
  }
}

// Fits servers, workers and strategy together, or says why they do not fit.
void resolve_servers(const exchange::Strategy& strategy, const engines::EngineInfo& engine,
                     const models::ModelInfo& model, std::span<const int> hosts, config::TrainConfig& c) {
  const auto refuse_if = [&](bool wrong, const std::string& what) {
    if (wrong) throw ConfigError(fmt::format("--strategy {}: {}", c.strategy, what));
  };
  resolve_server_role(strategy, c);
  if (strategy.servers && c.servers == 0) c.servers = c.colocate ? c.workers : 1;
  refuse_if(c.colocate && c.servers != c.workers,
            fmt::format("--colocate puts a server into each of {} workers, not {}", c.workers, c.servers));
  refuse_if(c.servers > model.parameters,
            fmt::format("--servers {} for the {} parameters of {}", c.servers, model.parameters, model.name));
  resolve_local_aggregation(strategy, engine, model, hosts, c);
  refuse_if(c.server_role == "sum" && c.backup_workers > 0,
            "--server-role sum does not fit --backup-workers: a late worker would miss updates");
  refuse_if(
      c.local_aggregation && c.backup_workers > 0,
      "--local-aggregation does not fit --backup-workers: one push of all cannot leave out one of them");
  refuse_if(
      c.local_aggregation && c.server_role == "update" && c.on_nonfinite == "skip",
      "--on-nonfinite skip needs a whole gradient before any of it leaves, which --local-aggregation does "
      "not have where servers update; use --server-role sum");
  refuse_if(
      !c.partitions.empty() && !exchange::takes_rows(strategy, tuning_of(c)),
      fmt::format(
          "--partitions {} is for embedding tables that are exchanged by rows; here they travel whole: {}",
          c.partitions, exchange::why_whole_tables(tuning_of(c))));
  refuse_if(strategy.shares_memory && c.transport != "auto" && c.transport != "shm", "needs --transport shm");
  refuse_if(
      c.sync_batchnorm && (strategy.asynchronous || strategy.replicas_differ || c.backup_workers > 0),
      "--sync-batchnorm needs workers that keep step: ring, allreduce, reduce-broadcast, hybrid, or ps-sync "
      "without --backup-workers");
  if (c.pace_ms > 0) c.no_evaluate = true;  // there is nothing to evaluate
}

// What the bits of a run depend on is fixed, or refused.
void resolve_reproducible(const exchange::Strategy& strategy, config::TrainConfig& c) {
  if (!c.reproducible) return;
  if (!strategy.takes_shards) {
    throw ConfigError(fmt::format("--reproducible does not fit --strategy {}: {}", c.strategy,
                                  exchange::why_no_shards(strategy)));
  }
  if (c.shards == 0) c.shards = config::usual_shards(c.workers);
  // How a product is cut for several threads decides in which order it is added up, and workers share cores.
  if (c.threads == 0) c.threads = 1;
}

// Statistics over all workers, or over all shards, are made when each computes a part of the step.
void check_synchronised(const config::TrainConfig& c, const RunPlan& plan, std::size_t samples) {
  if (!c.sync_batchnorm) return;
  const std::int64_t last = static_cast<std::int64_t>(samples) % plan.global_batch;
  const auto parts = [&](std::int64_t share) { return (share + plan.micro_batch - 1) / plan.micro_batch; };
  const int among = c.reproducible ? c.shards : c.workers;
  if (parts(last / among) != parts((last + among - 1) / among)) {
    throw ConfigError(
        fmt::format("--sync-batchnorm: the {} samples of an epoch's last step leave some of the {} {} "
                    "without a share; choose another --batch",
                    last, among, c.reproducible ? "shards" : "workers"));
  }
}

// A run that goes on does so in its own folder unless it is told another.
void resolve_out(config::TrainConfig& c, const std::string& now) {
  if (!c.out.empty()) return;
  if (c.resume == kAuto) throw ConfigError("--resume auto needs --out, the folder to go on or begin in");
  if (!c.resume.empty()) c.out = run_folder_of(c.resume).string();
  // Of a file of one's own its name.
  const std::string model = std::filesystem::path(c.model).stem().string();
  if (c.out.empty()) c.out = fmt::format("runs/{}-{}-{}", model, c.strategy, now);
}

}  // namespace

std::vector<UniqueFd> localise(Setup& setup, const DataPlaces& places) {
  const auto& c = setup.config;
  std::filesystem::create_directories(c.out);
  if (c.data == kSynthetic) return {};
  const auto info = data::find_dataset(c.data, own_data_of(c));
  auto plain = data::prepare(info, data::locate(info, places.roots), setup.fields, places.cache);
  setup.files = std::move(plain.files);
  const auto digest = digest_of_data(setup);
  if (digest != setup.data_sha256) {
    throw DataError(fmt::format("its copy of {} is another than the launcher's: SHA-256 {}, not {}", c.data,
                                digest, setup.data_sha256));
  }
  return std::move(plain.keep_open);
}

Prepared prepare(config::TrainConfig c, const DataPlaces& places, std::optional<int> threads_wish,
                 const std::string& now, std::span<const int> started_on) {
  config::validate(c);
  if (!c.hostfile.empty()) c.hosts = config::text_of(config::read_hostfile(c.hostfile));
  c.hostfile.clear();
  const auto hosts = hosts_of_workers(c, started_on);
  if (!c.emulate.empty() || !c.hosts.empty()) c.transport = "tcp";
  const auto& strategy = exchange::find_strategy(c.strategy);
  if (strategy.one_worker_only && c.workers != 1) {
    throw ConfigError(fmt::format("--strategy {} has one worker, not {}", c.strategy, c.workers));
  }
  require_own_settings(strategy, c);
  exchange::algorithm_of(strategy, c.algorithm);
  const auto& engine = engines::find_engine(c.engine);
  engines::require_fits(engine, c.algorithm);
  c.engine = engine.name;
  optimizer_settings(c);
  const auto model = models::find_model(c.model, c.loss);
  c.model = model.name;
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
  resolve_reproducible(strategy, c);
  const bool asked_to_add_up = c.local_aggregation;
  resolve_servers(strategy, engine, model, hosts, c);
  require_same_replicas(strategy, c);
  require_flippable(strategy, c);
  target_of(c, model);
  std::optional<data::DatasetInfo> info;  // none: made up
  if (c.data != kSynthetic) info = data::find_dataset(c.data, own_data_of(c));
  if (!info && model.takes_any_data()) {
    throw ConfigError(fmt::format("--model {} takes data as it is, and --data {} is made up to fit a model",
                                  c.model, c.data));
  }
  info ? check_fits(model, *info, c) : void(model.fields(options_of(c)));

  if (augment_of(c).any() && !model.takes_any_data())
    data::Augment(augment_of(c), model.fields(options_of(c)), c.seed);

  if (c.memory_format == "auto") c.memory_format = model.channels_last ? "channels-last" : "contiguous";
  if (c.transport == "auto") c.transport = "shm";
  auto reach = c.emulate.empty() ? net::Reach::one_host : net::Reach::emulated_hosts;
  if (!c.hosts.empty()) reach = net::Reach::hosts;
  c.wire = net::name_of(net::resolve_wire(net::parse_wire(c.wire), reach));
  if (c.threads == 0) {
    // Other hosts are taken to have as many cores as this one; emulated ones are this one.
    std::ptrdiff_t on_one_host = c.emulate.empty() ? 1 : c.workers;
    for (const int host : hosts) on_one_host = std::max(on_one_host, std::ranges::count(hosts, host));
    const int share = static_cast<int>(allowed_cores().size()) / static_cast<int>(on_one_host);
    c.threads = threads_wish.value_or(std::max(1, share));
  }
  resolve_out(c, now);

  Prepared prepared;
  prepared.lock = FolderLock::take_if_there(c.out);
  require_usable_folder(c);
  const std::size_t samples = info ? prepare_data(*info, places, model, c, prepared) : kSyntheticSamples[0];
  const RunPlan plan = make_plan(c, samples);
  check_synchronised(c, plan, samples);
  // Fixed now, so that a longer run that goes on from this one has the same rates.
  if (c.scale_lr) c.warmup_steps = plan.schedule.warm_up.steps;
  if (c.schedule == "cosine") c.schedule_steps = plan.schedule.end;
  if (c.local_aggregation && !asked_to_add_up) prepared.setup.chosen.emplace_back("local_aggregation");
  prepared.setup.config = std::move(c);
  prepared.setup.total_steps = plan.total_steps;
  prepared.setup.data_sha256 = digest_of_data(prepared.setup);
  prepared.setup.model_sha256 = digest_of_model(prepared.setup.config);
  if (!prepared.setup.config.resume.empty()) prepare_resume(plan, prepared);
  return prepared;
}

}  // namespace tutti::train
