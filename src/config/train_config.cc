#include "config/train_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "config/emulation.h"

namespace tutti::config {
namespace {

// Far above any run, far below what overflows.
constexpr std::int64_t kMostSteps = 1'000'000'000'000;
constexpr std::int64_t kMostEpochs = 1'000'000;

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

}  // namespace

void validate(const TrainConfig& c) {
  require_text(c);
  require(c.workers >= 1, "workers", "at least 1", c.workers);
  require(c.workers <= 1024, "workers", "at most 1024", c.workers);
  require(c.batch >= 1, "batch", "at least 1", c.batch);
  require(c.global_batch >= 0, "global-batch", "at least 1", c.global_batch);
  require(c.global_batch % c.workers == 0, "global-batch",
          fmt::format("a multiple of the {} workers", c.workers), c.global_batch);
  require(c.steps >= 0, "steps", "at least 1", c.steps);
  require(c.epochs >= 0, "epochs", "at least 1", c.epochs);
  require(c.steps == 0 || c.epochs == 0, "steps", "left out where --epochs is given", c.steps);
  require(c.steps <= kMostSteps, "steps", fmt::format("at most {}", kMostSteps), c.steps);
  require(c.epochs <= kMostEpochs, "epochs", fmt::format("at most {}", kMostEpochs), c.epochs);
  require(std::isfinite(c.lr) && c.lr > 0, "lr", "a positive number", c.lr);
  require(std::isfinite(c.momentum), "momentum", "a number", c.momentum);
  require(std::isfinite(c.beta1), "beta1", "a number", c.beta1);
  require(std::isfinite(c.beta2), "beta2", "a number", c.beta2);
  require(std::isfinite(c.epsilon), "epsilon", "a number", c.epsilon);
  require(std::isfinite(c.weight_decay), "weight-decay", "a number", c.weight_decay);
  require(c.threads >= 0 && c.threads <= 1024, "threads", "between 0 (choose) and 1024", c.threads);
  require(c.timeout_s > 0 && c.timeout_s <= 86400, "timeout", "between 0 and 86400 seconds", c.timeout_s);
  require(c.checkpoint_every >= 0, "checkpoint-every", "at least 1", c.checkpoint_every);
  require(c.bucket_bytes >= 1, "bucket-bytes", "at least 1", c.bucket_bytes);
  require(c.servers >= 0 && c.servers <= 1024, "servers", "between 1 and 1024", c.servers);
  require(c.server_role == "update" || c.server_role == "sum", "server-role", "update or sum", c.server_role);
  require(c.backup_workers >= 0 && c.backup_workers < c.workers, "backup-workers",
          fmt::format("at least 0 and fewer than the {} workers", c.workers), c.backup_workers);
  require(c.staleness >= 0, "staleness", "at least 0", c.staleness);
  require(c.sync_every >= 1, "sync-every", "at least 1", c.sync_every);
  require(c.moving_rate >= 0 && c.moving_rate < 1, "moving-rate", "between 0 (choose) and 1", c.moving_rate);
  require(c.pace_ms >= 0 && c.pace_ms <= 3.6e6, "pace", "between 0 and 3600000 ms", c.pace_ms);
  parse_slow(c);
  parse_partitions(c);
  const bool emulated = parse_emulation(c.emulate).has_value();
  require(!emulated || c.transport != "shm", "transport", "tcp with --emulate, whose hosts share no memory",
          c.transport);
  require(!emulated || !c.local_aggregation, "local-aggregation",
          "left out with --emulate, whose hosts share no memory", c.local_aggregation);
  require(c.device == "cpu", "device", "cpu (this build trains on nothing else)", c.device);
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

std::string resolved_table(const TrainConfig& config) {
  std::string text;
  const nlohmann::json json = config;
  for (const auto& [key, value] : json.items()) {
    text += fmt::format("  {:<17} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

}  // namespace tutti::config
