#include "config/train_config.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"

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
  require(c.device == "cpu", "device", "cpu (this build trains on nothing else)", c.device);
  require(c.memory_format == "auto" || c.memory_format == "contiguous" || c.memory_format == "channels-last",
          "memory-format", "auto, contiguous or channels-last", c.memory_format);
  require(c.transport == "auto" || c.transport == "shm" || c.transport == "tcp", "transport",
          "auto, shm or tcp", c.transport);
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
