#include "train/plan.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "data/sampler.h"
#include "exchange/servers.h"

namespace tutti::train {

namespace {

optim::Decay decay_of(const std::string& name) {
  if (name == "step") return optim::Decay::step;
  return name == "cosine" ? optim::Decay::cosine : optim::Decay::constant;
}

optim::RateSchedule schedule_of(const config::TrainConfig& c, const RunPlan& plan) {
  optim::RateSchedule s{
      .warm_up = {.base_lr = c.lr, .growth = c.workers * c.accumulate, .scale_lr = c.scale_lr},
      .decay = decay_of(c.schedule),
      .drop_every = std::max<std::int64_t>(1, c.step_size) * plan.steps_per_epoch,
      .gamma = c.gamma,
      .end = c.schedule_steps > 0 ? c.schedule_steps : plan.total_steps,
      .min_lr = c.min_lr};
  s.warm_up.steps =
      c.warmup_steps >= 0 ? c.warmup_steps : std::min(plan.steps_per_epoch, (plan.total_steps + 4) / 5);
  if (s.decay == optim::Decay::cosine && s.min_lr == 0 && s.end < plan.total_steps) {
    throw ConfigError(fmt::format(
        "--schedule cosine has a rate of 0 from step {} on, and the run has {}: it needs --min-lr, or from "
        "its beginning a --schedule-steps of {}",
        s.end, plan.total_steps, plan.total_steps));
  }
  return s;
}

}  // namespace

std::int64_t batch_of(const config::TrainConfig& c) {
  return config::samples_a_step(c) / c.workers;
}

ShardRun parts_of(const config::TrainConfig& c, int index) {
  if (!c.reproducible) return {index, index + 1};
  return ShardTree(c.shards).run_of(index, c.workers);
}

double pace_of(const config::TrainConfig& c, const models::ModelInfo& model) {
  if (model.flops_per_sample == 0) {
    throw ConfigError(fmt::format("--device-tflops {}: nobody knows the operations of {}; use --pace",
                                  c.device_tflops, model.name));
  }
  auto own = model.own;
  const auto asked = model.complete(options_of(c));
  // Neither changes what is computed by much.
  own.classes = asked.classes;
  own.vocabulary = asked.vocabulary;
  if (asked != own) {
    throw ConfigError(
        fmt::format("--device-tflops {}: the operations of {} are known for its own sizes only; use --pace",
                    c.device_tflops, model.name));
  }
  // Backward computes twice what forward does: for what comes in, and for the weights.
  return 3 * model.flops_per_sample * static_cast<double>(batch_of(c)) / (c.device_tflops * 1e12) * 1000;
}

RunPlan make_plan(const config::TrainConfig& c, std::size_t samples) {
  RunPlan plan;
  plan.global_batch = config::samples_a_step(c);
  plan.parts = c.reproducible ? c.shards : c.workers;
  plan.part = plan.global_batch / plan.parts;
  plan.micro_batch = plan.part / c.accumulate;
  const auto n = static_cast<std::int64_t>(samples);
  if (plan.global_batch > n) {
    throw ConfigError(
        fmt::format("a batch of {} for each of {} workers is larger than the data: {} has {} samples",
                    batch_of(c), c.workers, c.data, n));
  }
  plan.steps_per_epoch = static_cast<std::int64_t>(data::steps_per_epoch(
      samples, static_cast<std::size_t>(plan.part), static_cast<std::size_t>(plan.parts)));
  plan.total_steps = c.steps > 0 ? c.steps : std::max<std::int64_t>(c.epochs, 1) * plan.steps_per_epoch;
  plan.schedule = schedule_of(c, plan);
  return plan;
}

optim::Settings optimizer_settings(const config::TrainConfig& c) {
  optim::Settings s;
  s.kind = optim::parse_kind(c.optimizer);
  s.lr = c.lr;
  if (c.momentum >= 0) s.momentum = c.momentum;
  s.beta1 = c.beta1;
  s.beta2 = c.beta2;
  s.alpha = c.alpha;
  s.trust = c.trust;
  if (c.epsilon >= 0) s.epsilon = c.epsilon;
  if (c.weight_decay >= 0) s.weight_decay = c.weight_decay;
  optim::validate(s);
  return s;
}

models::ModelOptions options_of(const config::TrainConfig& c) {
  return {.classes = c.classes,
          .image_size = c.image_size,
          .inputs = c.inputs,
          .vocabulary = c.vocabulary,
          .embedding = c.embedding,
          .hidden = c.hidden,
          .unroll = c.unroll,
          .sampled = c.sampled};
}

Due due_after(const config::TrainConfig& config, const RunPlan& plan, std::int64_t before, std::int64_t now) {
  const auto passed = [&](std::int64_t every) { return now / every > before / every; };
  const bool end_of_epoch = passed(plan.steps_per_epoch);
  const auto every = [&](std::int64_t steps) { return steps > 0 ? passed(steps) : end_of_epoch; };
  return {.end_of_epoch = end_of_epoch,
          .checkpoint = every(config.checkpoint_every),
          .evaluation = !config.no_evaluate && every(config.evaluate_every)};
}

bool channels_last(const config::TrainConfig& config) {
  return config.memory_format == "channels-last";
}

bool skips_nonfinite(const config::TrainConfig& config) {
  return config.on_nonfinite == "skip";
}

data::OwnDataOptions own_data_of(const config::TrainConfig& c) {
  data::OwnDataOptions own{.label = c.label, .test_share = c.test_share, .test_file = c.test_data};
  std::istringstream names(c.features);
  for (std::string name; std::getline(names, name, ',');) own.features.push_back(name);
  return own;
}

data::AugmentOptions augment_of(const config::TrainConfig& c) {
  return {.crop = c.crop, .flip = c.flip, .cutout = c.cutout};
}

exchange::Tuning tuning_of(const config::TrainConfig& c, std::span<const int> hosts) {
  const auto& strategy = exchange::find_strategy(c.strategy);
  int pushers = c.workers;
  if (c.local_aggregation && hosts.empty()) pushers = 1;
  if (c.local_aggregation && !hosts.empty()) {
    const auto workers = hosts.first(static_cast<std::size_t>(c.workers));
    pushers = static_cast<int>(exchange::pushing_workers(workers).size());
  }
  exchange::Tuning t{
      .partitions = config::parse_partitions(c),
      .local_aggregation = c.local_aggregation,
      .whole_tables = c.no_sparse,
      .shards = c.reproducible ? c.shards : 0,
      .sync_every = c.sync_every,
      .moving_rate = c.moving_rate > 0 ? c.moving_rate : 0.9 / c.workers,
      .clip_norm = c.clip_norm,
      .on_nonfinite = skips_nonfinite(c) ? exchange::OnNonFinite::skip : exchange::OnNonFinite::stop};
  t.servers = {.workers = pushers,
               .first_server = c.workers,
               .servers = c.servers,
               .policy = {.consistency = strategy.servers.value_or(ps::Consistency::sync),
                          .workers = pushers,
                          .backup = c.backup_workers,
                          .staleness = c.staleness},
               .role = c.server_role == "sum" ? ps::Role::mean : ps::Role::update,
               .optimizer = optimizer_settings(c),
               .shards = t.shards,
               .damp_stale = c.damp_stale,
               .timeout = timeout_of(c),
               .survives_workers = survives_workers(c)};
  return t;
}

std::vector<Rank> seen_by_servers(const config::TrainConfig& c, std::span<const int> hosts) {
  if (!c.local_aggregation || hosts.empty()) return {};
  return exchange::pushers_first(hosts.first(static_cast<std::size_t>(c.workers)), c.servers);
}

bool survives_workers(const config::TrainConfig& c) {
  // A server in a worker's process dies with it.
  const bool asynchronous = exchange::find_strategy(c.strategy).asynchronous || c.backup_workers > 0;
  // Who is left is settled on one host (net/status_board.h).
  return asynchronous && !c.colocate && c.workers > 1 && c.hosts.empty();
}

Clock::duration timeout_of(const config::TrainConfig& c) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(c.timeout_s));
}

Clock::duration heartbeat_timeout_of(const config::TrainConfig& c) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(c.heartbeat_timeout_s));
}

}  // namespace tutti::train
