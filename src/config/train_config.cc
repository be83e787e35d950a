#include "config/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "config/emulation.h"

namespace tutti::config {

// The fields once more, by name: libraries that list them stop at 63.
// clang-format off
#define TUTTI_EACH_SETTING(X) \
  X(model) X(loss) X(classes) X(image_size) X(vocabulary) X(embedding) X(hidden) X(unroll) X(sampled) X(inputs) X(data)     \
  X(label) X(features) X(test_share) X(test_data)                                                         \
  X(crop) X(flip) X(cutout) X(strategy) X(workers) X(steps) X(epochs) X(batch) X(accumulate)              \
  X(global_batch) X(optimizer) X(lr) X(momentum) X(beta1) X(beta2) X(alpha) X(trust) X(epsilon)           \
  X(weight_decay) X(scale_lr) X(warmup_steps) X(schedule) X(step_size) X(gamma) X(min_lr)                 \
  X(schedule_steps) X(label_smoothing) X(clip_norm) X(on_nonfinite) X(seed) X(servers) X(colocate) X(server_role)         \
  X(backup_workers) X(staleness) X(damp_stale) X(local_aggregation) X(no_sparse) X(measure_links)         \
  X(no_overlap) X(partitions) X(sync_every) X(moving_rate) X(pace_ms) X(device_tflops) X(slow) X(emulate)               \
  X(sync_batchnorm) X(device) X(precision) X(transport) X(algorithm) X(memory_format)                     \
  X(bucket_bytes) X(threads) X(timeout_s) X(heartbeat_timeout_s) X(no_evaluate) X(evaluate_every)         \
  X(until) X(trace) X(tensorboard) X(checkpoint_every) X(no_checkpoint) X(out) X(resume)                  \
  X(overwrite) X(restarts)
// clang-format on

namespace {

// Far above any run, far below what overflows.
constexpr std::int64_t kMostSteps = 1'000'000'000'000;
constexpr std::int64_t kMostEpochs = 1'000'000;
constexpr std::int64_t kMostSamples = 1'000'000'000;

void require(bool holds, std::string_view flag, std::string_view rule, const auto& value) {
  if (!holds) throw ConfigError(fmt::format("--{} must be {}, not {}", flag, rule, value));
}

// Every setting is saved as JSON.
void require_text(const TrainConfig& c) {
  const nlohmann::json json = c;
  for (const auto& [key, value] : json.items()) {
    try {
      (void)value.dump();
    } catch (const nlohmann::json::exception&) {
      throw ConfigError(fmt::format("--{} must be UTF-8 text", key));
    }
  }
}

void require_schedule(const TrainConfig& c) {
  const bool step = c.schedule == "step";
  const bool cosine = c.schedule == "cosine";
  require(step || cosine || c.schedule == "constant", "schedule", "constant, step or cosine", c.schedule);
  require(
      c.step_size <= kMostEpochs && (step ? c.step_size >= 1 : c.step_size == 0), "step-size",
      step ? "at least 1, the epochs between drops of --schedule step" : "left out without --schedule step",
      c.step_size);
  require(c.gamma > 0 && c.gamma <= 1, "gamma", "above 0 and at most 1", c.gamma);
  require(c.min_lr >= 0 && c.min_lr <= c.lr, "min-lr", fmt::format("between 0 and --lr {}", c.lr), c.min_lr);
  require(cosine || c.min_lr == 0, "min-lr", "left out without --schedule cosine", c.min_lr);
  require(c.schedule_steps >= 0 && c.schedule_steps <= kMostSteps, "schedule-steps", "at least 1",
          c.schedule_steps);
  require(cosine || c.schedule_steps == 0, "schedule-steps", "left out without --schedule cosine",
          c.schedule_steps);
}

}  // namespace

void to_json(nlohmann::json& json, const TrainConfig& config) {
#define TUTTI_PUT(field) json[#field] = config.field;
  TUTTI_EACH_SETTING(TUTTI_PUT)
#undef TUTTI_PUT
}

void from_json(const nlohmann::json& json, TrainConfig& config) {
  const TrainConfig defaults;
#define TUTTI_GET(field) config.field = json.value(#field, defaults.field);
  TUTTI_EACH_SETTING(TUTTI_GET)
#undef TUTTI_GET
}

void validate(const TrainConfig& c) {
  require_text(c);
  require(c.workers >= 1, "workers", "at least 1", c.workers);
  require(c.workers <= 1024, "workers", "at most 1024", c.workers);
  require(c.batch >= 1, "batch", "at least 1", c.batch);
  require(c.global_batch >= 0, "global-batch", "at least 1", c.global_batch);
  require(c.batch <= kMostSamples, "batch", fmt::format("at most {}", kMostSamples), c.batch);
  require(c.accumulate >= 1 && c.accumulate <= kMostSamples, "accumulate",
          fmt::format("between 1 and {}", kMostSamples), c.accumulate);
  require(c.global_batch % (c.workers * c.accumulate) == 0, "global-batch",
          fmt::format("a multiple of {} workers times {} micro batches", c.workers, c.accumulate),
          c.global_batch);
  require(c.steps >= 0, "steps", "at least 1", c.steps);
  require(c.epochs >= 0, "epochs", "at least 1", c.epochs);
  require(c.steps == 0 || c.epochs == 0, "steps", "left out where --epochs is given", c.steps);
  require(c.steps <= kMostSteps, "steps", fmt::format("at most {}", kMostSteps), c.steps);
  require(c.epochs <= kMostEpochs, "epochs", fmt::format("at most {}", kMostEpochs), c.epochs);
  require(std::isfinite(c.lr) && c.lr > 0, "lr", "a positive number", c.lr);
  require(std::isfinite(c.momentum), "momentum", "a number", c.momentum);
  require(std::isfinite(c.beta1), "beta1", "a number", c.beta1);
  require(std::isfinite(c.beta2), "beta2", "a number", c.beta2);
  require(std::isfinite(c.alpha), "alpha", "a number", c.alpha);
  require(std::isfinite(c.trust), "trust", "a number", c.trust);
  require(std::isfinite(c.epsilon), "epsilon", "a number", c.epsilon);
  require(std::isfinite(c.weight_decay), "weight-decay", "a number", c.weight_decay);
  require_schedule(c);
  require(c.label_smoothing >= 0 && c.label_smoothing < 1, "label-smoothing", "at least 0 and below 1",
          c.label_smoothing);
  require(std::isfinite(c.clip_norm) && c.clip_norm >= 0, "clip-norm", "a finite number, 0 or more",
          c.clip_norm);
  require(c.on_nonfinite == "stop" || c.on_nonfinite == "skip", "on-nonfinite", "stop or skip",
          c.on_nonfinite);
  require(c.threads >= 0 && c.threads <= 1024, "threads", "between 0 (choose) and 1024", c.threads);
  require(c.timeout_s > 0 && c.timeout_s <= 86400, "timeout", "between 0 and 86400 seconds", c.timeout_s);
  require(c.heartbeat_timeout_s == 0 || (c.heartbeat_timeout_s >= 1 && c.heartbeat_timeout_s <= 86400),
          "heartbeat-timeout", "0 (none) or between 1 and 86400 seconds", c.heartbeat_timeout_s);
  require(c.checkpoint_every >= 0, "checkpoint-every", "at least 1", c.checkpoint_every);
  require(c.checkpoint_every == 0 || !c.no_checkpoint, "checkpoint-every",
          "left out where --no-checkpoint is given", c.checkpoint_every);
  require(c.restarts >= 0 && c.restarts <= 1000, "restarts", "between 0 and 1000", c.restarts);
  require(!c.overwrite || c.resume != "auto", "overwrite",
          "left out where --resume auto is given, which goes on with what is there", c.overwrite);
  require(c.bucket_bytes >= 1, "bucket-bytes", "at least 1", c.bucket_bytes);
  require(c.servers >= 0 && c.servers <= 1024, "servers", "between 1 and 1024", c.servers);
  require(c.server_role == "auto" || c.server_role == "update" || c.server_role == "sum", "server-role",
          "auto, update or sum", c.server_role);
  require(c.backup_workers >= 0 && c.backup_workers < c.workers, "backup-workers",
          fmt::format("at least 0 and fewer than the {} workers", c.workers), c.backup_workers);
  require(c.staleness >= 0, "staleness", "at least 0", c.staleness);
  require(c.sync_every >= 1, "sync-every", "at least 1", c.sync_every);
  require(c.moving_rate >= 0 && c.moving_rate < 1, "moving-rate", "between 0 (choose) and 1", c.moving_rate);
  require(c.pace_ms >= 0 && c.pace_ms <= 3.6e6, "pace", "between 0 and 3600000 ms", c.pace_ms);
  require(std::isfinite(c.device_tflops) && c.device_tflops >= 0, "device-tflops",
          "a finite number, 0 or more", c.device_tflops);
  require(c.device_tflops == 0 || c.pace_ms == 0, "device-tflops",
          "left out where --pace is given: both say how long a step computes", c.device_tflops);
  require(c.test_share > 0 && c.test_share < 1, "test-share", "above 0 and below 1", c.test_share);
  require(c.loss == "cross-entropy" || c.model.find(':') != std::string::npos, "loss",
          "left out unless --model is script:FILE or plugin:FILE, for other networks have their own", c.loss);
  const bool csv = c.data.starts_with("csv:");
  require(csv || c.label.empty(), "label", "left out unless --data is csv:FILE", c.label);
  require(csv || c.features.empty(), "features", "left out unless --data is csv:FILE", c.features);
  require(csv || c.test_data.empty(), "test-data", "left out unless --data is csv:FILE", c.test_data);
  parse_slow(c);
  parse_partitions(c);
  require(c.evaluate_every >= 0, "evaluate-every", "at least 1", c.evaluate_every);
  require(!parse_until(c) || !c.no_evaluate, "until", "left out where --no-evaluate is given", c.until);
  require(!parse_until(c) || (c.pace_ms == 0 && c.device_tflops == 0), "until",
          "left out where --pace or --device-tflops is given", c.until);
  const bool emulated = parse_emulation(c.emulate).has_value();
  require(!emulated || c.transport != "shm", "transport", "tcp with --emulate, whose hosts share no memory",
          c.transport);
  require(!emulated || !c.local_aggregation, "local-aggregation",
          "left out with --emulate, whose hosts share no memory", c.local_aggregation);
  require(c.device == "cpu", "device", "cpu (this build trains on nothing else)", c.device);
  require(c.precision == "fp32" || c.precision == "bf16", "precision", "fp32 or bf16", c.precision);
  require(c.memory_format == "auto" || c.memory_format == "contiguous" || c.memory_format == "channels-last",
          "memory-format", "auto, contiguous or channels-last", c.memory_format);
  require(c.transport == "auto" || c.transport == "shm" || c.transport == "tcp", "transport",
          "auto, shm or tcp", c.transport);
}

Slow parse_slow(const TrainConfig& c) {
  if (c.slow.empty()) return {};
  Slow slow;
  int end = 0;
  const bool read = std::sscanf(c.slow.c_str(), "%d:%lf%n", &slow.rank, &slow.factor, &end) == 2;
  const bool whole = read && static_cast<std::size_t>(end) == c.slow.size();
  require(whole && slow.rank >= 0 && slow.rank < c.workers && slow.factor >= 1 && slow.factor <= 1e6, "slow",
          fmt::format("RANK:FACTOR with a rank below {} and a factor of at least 1", c.workers), c.slow);
  return slow;
}

int parse_partitions(const TrainConfig& c) {
  if (c.partitions.empty() || c.partitions == "auto") return std::max(1, c.servers);
  int count = 0;
  const char* end = c.partitions.data() + c.partitions.size();
  const auto [at, error] = std::from_chars(c.partitions.data(), end, count);
  require(error == std::errc() && at == end && count >= 1 && count <= 4096, "partitions",
          "auto or between 1 and 4096", c.partitions);
  return count;
}

std::optional<Until> parse_until(const TrainConfig& c) {
  if (c.until.empty()) return std::nullopt;
  const auto equals = c.until.find('=');
  Until until{.figure = c.until.substr(0, equals)};
  const char* end = c.until.data() + c.until.size();
  const char* begin = equals == std::string::npos ? end : c.until.data() + equals + 1;
  const auto [at, error] = std::from_chars(begin, end, until.value);
  require(error == std::errc() && at == end && std::isfinite(until.value) && !until.figure.empty(), "until",
          "FIGURE=VALUE, such as accuracy=0.98", c.until);
  return until;
}

std::string resolved_table(const TrainConfig& config) {
  std::string text;
  const nlohmann::json json = config;
  for (const auto& [key, value] : json.items()) {
    text += fmt::format("  {:<17} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

}  // namespace tutti::config
