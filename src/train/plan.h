// How many steps of which size a run makes: derived from the config and the size of the data, once.
#pragma once

#include <span>
#include <vector>

#include "base/rank.h"
#include "base/shard_tree.h"
#include "config/train_config.h"
#include "data/augment.h"
#include "data/own_data.h"
#include "exchange/strategy.h"
#include "models/model_info.h"
#include "optim/schedule.h"
#include "optim/settings.h"

namespace tutti::train {

struct RunPlan {
  std::int64_t global_batch = 0;  // samples of a step
  int parts = 1;                  // of it: the workers' shares, or with --reproducible the shards
  std::int64_t part = 0;          // samples of each
  std::int64_t micro_batch = 0;   // of that, what is computed at a time
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;
  optim::RateSchedule schedule;

  // Epochs and steps both count from 0 here.
  std::int64_t epoch_of(std::int64_t step) const { return step / steps_per_epoch; }
};

// What follows steps of a run, by its settings.
struct Due {
  bool end_of_epoch = false;
  bool checkpoint = false;
  bool evaluation = false;
  bool anything() const { return end_of_epoch || checkpoint || evaluation; }
};
// After step `now`, where `before` was the last one looked at: a worker that was late may have left out some.
Due due_after(const config::TrainConfig& config, const RunPlan& plan, std::int64_t before, std::int64_t now);

// Samples of a worker's step; with --reproducible about, where workers have different numbers of shards.
std::int64_t batch_of(const config::TrainConfig& config);

// Which parts of a global batch worker `index` computes.
ShardRun parts_of(const config::TrainConfig& config, int index);

// How many milliseconds a device of --device-tflops computes a worker's step. Throws ConfigError if the
// network has another size than the one whose operations are known.
double pace_of(const config::TrainConfig& config, const models::ModelInfo& model);

// Throws ConfigError if a global batch has more samples than the data, or a schedule ends before the run.
RunPlan make_plan(const config::TrainConfig& config, std::size_t samples);

// Throws ConfigError that names the flag.
optim::Settings optimizer_settings(const config::TrainConfig& config);

Clock::duration timeout_of(const config::TrainConfig& config);
Clock::duration heartbeat_timeout_of(const config::TrainConfig& config);

// Whether the run goes on when a worker dies: where nobody waits for a certain one.
bool survives_workers(const config::TrainConfig& config);

// What the network was told.
models::ModelOptions options_of(const config::TrainConfig& config);

// Images lie in memory as libtorch's fast kernels want them.
bool channels_last(const config::TrainConfig& config);

// A step with a NaN or infinite number is left out; otherwise it ends the run.
bool skips_nonfinite(const config::TrainConfig& config);

// What is said of data of one's own.
data::OwnDataOptions own_data_of(const config::TrainConfig& config);

// What is done to training images.
data::AugmentOptions augment_of(const config::TrainConfig& config);

// The numbers of single strategies. `hosts`: by rank, the host that it is on; empty: all are on one.
exchange::Tuning tuning_of(const config::TrainConfig& config, std::span<const int> hosts = {});

// All ranks in the order in which servers count them (exchange/servers.h); empty where that is their own.
std::vector<Rank> seen_by_servers(const config::TrainConfig& config, std::span<const int> hosts);

}  // namespace tutti::train
