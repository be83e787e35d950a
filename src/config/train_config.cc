#include "config/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <variant>

#include "base/error.h"
#include "base/port_range.h"
#include "config/emulation.h"
#include "config/flip_bit.h"
#include "config/hosts.h"
#include "config/settings.h"

namespace tutti::config {
namespace {

void require(bool holds, std::string_view flag, std::string_view rule, const auto& value) {
  if (!holds) throw ConfigError(fmt::format("--{} must be {}, not {}", flag, rule, value));
}

void require_schedule(const TrainConfig& c) {
  const bool step = c.schedule == "step";
  const bool cosine = c.schedule == "cosine";
  require(!step || c.step_size != 0, "step-size", "at least 1, the epochs between drops of --schedule step",
          c.step_size);
  require(step || c.step_size == 0, "step-size", "left out without --schedule step", c.step_size);
  require(c.min_lr >= 0 && c.min_lr <= c.lr, "min-lr", fmt::format("between 0 and --lr {}", c.lr), c.min_lr);
  require(cosine || c.min_lr == 0, "min-lr", "left out without --schedule cosine", c.min_lr);
  require(cosine || c.schedule_steps == 0, "schedule-steps", "left out without --schedule cosine",
          c.schedule_steps);
}

void require_own_data(const TrainConfig& c) {
  require(c.loss == "cross-entropy" || c.model.find(':') != std::string::npos, "loss",
          "left out unless --model is script:FILE or plugin:FILE, for other networks have their own", c.loss);
  const bool csv = c.data.starts_with("csv:");
  require(csv || c.label.empty(), "label", "left out unless --data is csv:FILE", c.label);
  require(csv || c.features.empty(), "features", "left out unless --data is csv:FILE", c.features);
  require(csv || c.test_data.empty(), "test-data", "left out unless --data is csv:FILE", c.test_data);
}

void require_emulated(const TrainConfig& c) {
  require(c.device_tflops == 0 || c.pace_ms == 0, "device-tflops",
          "left out where --pace is given: both say how long a step computes", c.device_tflops);
  parse_slow(c);
  parse_flip_bit(c);
  const bool emulated = parse_emulation(c.emulate).has_value();
  require(!emulated || c.transport == "auto" || c.transport == "tcp", "transport",
          "tcp with --emulate, whose hosts share no memory", c.transport);
}

void require_hosts(const TrainConfig& c) {
  require(c.hosts.empty() || c.hostfile.empty(), "hostfile", "left out where --hosts is given", c.hostfile);
  const auto hosts = named_hosts(c.hosts, c.hostfile);
  if (hosts.empty()) return;
  require(c.emulate.empty(), "emulate", "left out where --hosts are given, which are real", c.emulate);
  require(c.transport == "auto" || c.transport == "tcp", "transport",
          "tcp with --hosts, which share no memory", c.transport);
  require(c.workers <= slots_of(hosts), "workers",
          fmt::format("at most {}, for which --hosts have room", slots_of(hosts)), c.workers);
}

void require_outcome(const TrainConfig& c) {
  require(c.checkpoint_every == 0 || !c.no_checkpoint, "checkpoint-every",
          "left out where --no-checkpoint is given", c.checkpoint_every);
  require(!c.overwrite || c.resume != "auto", "overwrite",
          "left out where --resume auto is given, which goes on with what is there", c.overwrite);
  const bool until = parse_until(c).has_value();
  require(!until || !c.no_evaluate, "until", "left out where --no-evaluate is given", c.until);
  require(!until || (c.pace_ms == 0 && c.device_tflops == 0), "until",
          "left out where --pace or --device-tflops is given", c.until);
}

void require_shards(const TrainConfig& c) {
  require(c.reproducible || c.shards == 0, "shards", "left out where --reproducible is not given", c.shards);
  if (!c.reproducible) return;
  const int shards = c.shards > 0 ? c.shards : usual_shards(c.workers);
  const std::int64_t samples = samples_a_step(c);
  require(shards >= c.workers, "shards", fmt::format("at least one for each of {} workers", c.workers),
          shards);
  require(samples % shards == 0, "shards",
          fmt::format("a divisor of the {} samples of a step (--global-batch, or --batch times workers)",
                      samples),
          shards);
  require(samples / shards % c.accumulate == 0, "accumulate",
          fmt::format("a divisor of the {} samples of each of {} shards", samples / shards, shards),
          c.accumulate);
  require(!c.scale_lr, "scale-lr",
          "left out with --reproducible: it would make the rate depend on the number of workers", c.scale_lr);
  require(c.backup_workers == 0, "backup-workers",
          "left out with --reproducible, where every shard counts in every step", c.backup_workers);
  require(!c.local_aggregation, "local-aggregation",
          "left out with --reproducible, where servers add up shards in an order of their own",
          c.local_aggregation);
  require(c.pace_ms == 0 && c.device_tflops == 0, "reproducible",
          "left out where --pace or --device-tflops is given: nothing is computed", c.reproducible);
}

}  // namespace

void to_json(nlohmann::json& json, const TrainConfig& config) {
  for (const Setting& setting : settings()) {
    std::visit([&](auto member) { json[setting.key] = config.*member; }, setting.member);
  }
}

void from_json(const nlohmann::json& json, TrainConfig& config) {
  const TrainConfig defaults;
  for (const Setting& setting : settings()) {
    std::visit([&](auto member) { config.*member = json.value(setting.key, defaults.*member); },
               setting.member);
  }
}

std::int64_t samples_a_step(const TrainConfig& c) {
  if (c.global_batch > 0) return c.global_batch;
  const std::int64_t of_one = c.batch * c.accumulate;  // 10^18 at most, by their checks
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return of_one > kMost / c.workers ? kMost : of_one * c.workers;
}

int usual_shards(int workers) {
  return std::max(8, static_cast<int>(std::bit_ceil(static_cast<unsigned>(workers))));
}

void validate(const TrainConfig& c) {
  // First each by itself: what follows may rely on that.
  for (const Setting& setting : settings()) validate(setting, c);
  if (!c.reproducible) {
    require(c.global_batch % (c.workers * c.accumulate) == 0, "global-batch",
            fmt::format("a multiple of {} workers times {} micro batches", c.workers, c.accumulate),
            c.global_batch);
  }
  require_shards(c);
  require(c.steps == 0 || c.epochs == 0, "steps", "left out where --epochs is given", c.steps);
  require_schedule(c);
  require(c.backup_workers >= 0 && c.backup_workers < c.workers, "backup-workers",
          fmt::format("at least 0 and fewer than the {} workers", c.workers), c.backup_workers);
  require(!c.local_aggregation || !c.no_local_aggregation, "local-aggregation",
          "left out where --no-local-aggregation is given", c.local_aggregation);
  parse_partitions(c);
  require_own_data(c);
  require_emulated(c);
  require_hosts(c);
  require(c.transport != "mpi" || c.wire == "auto" || c.wire == "plain", "wire",
          "left out with --transport mpi, which leaves messages to MPI", c.wire);
  parse_port_range(c.port_range);
  require_outcome(c);
}

JoinSettings join_settings_of(const TrainConfig& c) {
  for (const Setting& setting : settings()) {
    if (setting.group == Group::joining) validate(setting, c);
  }
  parse_port_range(c.port_range);
  return {.cluster = c.cluster,
          .task = c.task,
          .interface = c.interface,
          .port_range = c.port_range,
          .secret_file = c.secret_file,
          .port = c.port,
          .timeout_s = c.join_timeout_s};
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
