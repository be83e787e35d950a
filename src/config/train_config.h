// Everything that a training run can be told, in one struct.
//
// Defaults live here; key, flag, help and check of each stand in one row of settings.cc, from which JSON and
// the command line (flags.h) are made. Precedence is file < environment < flag. The resolved struct is
// printed, saved with each run, and is what every worker receives.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "config/launchers.h"

namespace tutti::config {

struct TrainConfig {
  std::string model = "mnist-cnn";
  std::string loss = "cross-entropy";  // of networks that give scores only: cross-entropy | mse | bce
  std::int64_t classes = 0;            // these are the model's own, or what the data has, if 0
  std::int64_t image_size = 0;
  std::int64_t vocabulary = 0;
  std::int64_t embedding = 0;
  std::int64_t hidden = 0;
  std::int64_t unroll = 0;
  std::int64_t sampled = 0;
  std::int64_t inputs = 0;
  std::string data = "fashion-mnist";
  std::string label;        // csv: the column to learn; empty: the last
  std::string features;     // csv: columns to learn it from, with commas between; empty: all others
  double test_share = 0.2;  // of one's own data, unless it has a file for tests
  std::string test_data;    // csv: that file
  bool crop = false;
  bool flip = false;
  int cutout = 0;
  std::string strategy = "allreduce";
  int workers = 1;
  std::int64_t steps = 0;         // 0: by epochs
  std::int64_t epochs = 0;        // 0: by steps; neither: one epoch
  std::int64_t batch = 128;       // a worker, at a time
  std::int64_t accumulate = 1;    // so many make a step
  std::int64_t global_batch = 0;  // of all workers; 0: batch x accumulate x workers

  std::string optimizer = "adam";
  double lr = 0.001;
  double momentum = -1;  // not said: the optimizer's own default
  double beta1 = 0.9;
  double beta2 = 0.999;
  double alpha = 0.99;       // rmsprop
  double trust = 0.001;      // lars
  double epsilon = -1;       // below 0: the optimizer's own default
  double weight_decay = -1;  // below 0: the optimizer's own default
  bool scale_lr = false;
  std::int64_t warmup_steps = -1;     // below 0: one epoch, at most a fifth of the run
  std::string schedule = "constant";  // constant | step | cosine
  std::int64_t step_size = 0;         // step: epochs
  double gamma = 0.1;                 // step
  double min_lr = 0;                  // cosine
  std::int64_t schedule_steps = 0;    // cosine; 0: the whole run
  double label_smoothing = 0;
  double clip_norm = 0;               // 0: no clipping
  std::string on_nonfinite = "stop";  // stop | skip
  std::uint64_t seed = 1;
  bool reproducible =
      false;       // the same bits at every number of workers, under every strategy that keeps step
  int shards = 0;  // reproducible: parts of a global batch; 0: chosen (usual_shards), then resolved

  int servers = 0;  // 0: none, or what the strategy needs
  bool colocate = false;
  std::string server_role = "auto";  // update | sum | auto: what the optimizer needs
  int backup_workers = 0;
  int staleness = 3;        // ps-ssp
  bool damp_stale = false;  // ps-async, ps-ssp
  bool local_aggregation =
      false;  // ps-sync; resolved to true where several workers share one of several hosts
  bool no_local_aggregation = false;
  bool no_sparse = false;       // embedding tables travel whole
  bool measure_links = false;   // hybrid: routes by what links do here and now, not by what they usually do
  bool no_overlap = false;      // gradients leave after backward
  std::string partitions;       // of embedding tables: a number or auto; empty: one a server
  std::int64_t sync_every = 8;  // easgd, local-sgd
  double moving_rate = 0;       // easgd; 0: 0.9 / workers

  double pace_ms = 0;        // above 0: wait so long instead of computing
  double device_tflops = 0;  // above 0: as long as such a device would compute; resolved to pace_ms
  std::string slow;          // RANK:FACTOR
  std::string flip_bit;      // RANK:STEP:TENSOR:ELEMENT:BIT[:gradient|mean] (config/flip_bit.h)
  std::string emulate;       // hosts=N,link=RATE; empty: no emulated cluster

  std::string hosts;           // host1:4,host2:4; empty: this one alone
  std::string hostfile;        // a file of them; resolved to hosts
  std::string ssh_config;      // empty: the user's own
  std::string remote_program;  // empty: where this one is

  std::string cluster;         // a file like TF_CONFIG: who is in a job that others start
  std::string task;            // of it, this process's
  std::string interface;       // by name or address; empty: loopback, or what other hosts reach
  std::string port_range;      // FIRST-LAST; empty: any
  int port = 0;                // of rank 0, for processes that others start; 0: as their launcher says
  std::string secret_file;     // that those processes share
  double join_timeout_s = 60;  // until one of them that has not come is given up

  bool sync_batchnorm = false;
  std::string device = "cpu";
  std::string precision = "fp32";  // fp32 | bf16
  std::string transport = "auto";
  std::string wire = "auto";  // auto | auth | encrypt | plain
  std::string engine = "auto";
  std::string algorithm = "auto";
  std::string memory_format = "auto";  // auto | contiguous | channels-last
  std::uint64_t bucket_bytes = 1 << 20;
  int threads = 0;                  // a worker; 0: its share of the cores
  double timeout_s = 30;            // until a rank that makes no progress is given up
  double heartbeat_timeout_s = 2;   // until a process that shows no life is
  bool no_evaluate = false;         // else on the test part, after each epoch and at the end
  std::int64_t evaluate_every = 0;  // steps; 0: after each epoch and at the end
  std::string until;                // FIGURE=VALUE
  bool trace = false;
  bool tensorboard = false;
  std::int64_t checkpoint_every = 0;  // steps; 0: after each epoch and at the end
  bool no_checkpoint = false;         // neither then nor at the end
  std::int64_t check_replicas = 0;    // steps; 0: never
  bool record_digests = false;        // of all steps (train/record_files.h)
  std::int64_t record_step = 0;       // this one whole; 0: none
  std::string out;                    // empty: runs/<model>-<strategy>-<time>
  std::string resume;                 // a run folder, a step folder, or auto
  bool overwrite = false;             // what an earlier run left in `out`
  int restarts = 0;                   // times that a run which fails is started again

  bool operator==(const TrainConfig&) const = default;
};

// A key that is missing keeps its default.
void to_json(nlohmann::json& json, const TrainConfig& config);
void from_json(const nlohmann::json& json, TrainConfig& config);

// Samples of a step, of all workers together.
std::int64_t samples_a_step(const TrainConfig& config);

// The parts that --reproducible cuts a global batch into unless it is told: the smallest power of two that
// gives each worker one, and at least 8, so that up to 8 workers agree without a word.
int usual_shards(int workers);

// `slow` as numbers; factor 1 for everyone if it is empty. Throws ConfigError.
struct Slow {
  int rank = -1;
  double factor = 1;
};
Slow parse_slow(const TrainConfig& config);

// `partitions` as a number; what auto begins with. Throws ConfigError.
int parse_partitions(const TrainConfig& config);

// `until` as its two parts; nothing if it is empty. Throws ConfigError.
struct Until {
  std::string figure;
  double value = 0;
};
std::optional<Until> parse_until(const TrainConfig& config);

// What of it is about joining a job that others start. Checked here, because it counts before anything else
// is looked at. Throws ConfigError that names the flag.
JoinSettings join_settings_of(const TrainConfig& config);

// Checks what can be checked without data or model. Throws ConfigError that names the flag.
void validate(const TrainConfig& config);

// The whole of it as a two-column text.
std::string resolved_table(const TrainConfig& config);

}  // namespace tutti::config
