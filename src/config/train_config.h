// Everything that a training run can be told, in one struct.
//
// Defaults live here. The command line mirrors the fields (flags.h); precedence is file < environment < flag.
// The resolved struct is printed, saved with each run, and is what every worker receives.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tutti::config {

struct TrainConfig {
  std::string model = "mnist-cnn";
  std::int64_t classes = 0;  // these are the model's own, or what the data has, if 0
  std::int64_t image_size = 0;
  std::int64_t vocabulary = 0;
  std::int64_t embedding = 0;
  std::int64_t hidden = 0;
  std::int64_t unroll = 0;
  std::int64_t sampled = 0;
  std::string data = "fashion-mnist";
  std::string strategy = "allreduce";
  int workers = 1;
  std::int64_t steps = 0;         // 0: by epochs
  std::int64_t epochs = 0;        // 0: by steps; neither: one epoch
  std::int64_t batch = 128;       // a worker
  std::int64_t global_batch = 0;  // of all workers; 0: batch x workers

  std::string optimizer = "adam";
  double lr = 0.001;
  double momentum = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = -1;       // below 0: the optimizer's own default
  double weight_decay = -1;  // below 0: the optimizer's own default
  bool scale_lr = false;
  std::int64_t warmup_steps = -1;  // below 0: one epoch, at most a fifth of the run
  std::uint64_t seed = 1;

  int servers = 0;  // 0: none, or what the strategy needs
  bool colocate = false;
  std::string server_role = "update";  // update | sum
  int backup_workers = 0;
  int staleness = 3;        // ps-ssp
  bool damp_stale = false;  // ps-async, ps-ssp
  bool local_aggregation = false;
  std::string partitions;       // of embedding tables: a number or auto; empty: one a server
  std::int64_t sync_every = 8;  // easgd, local-sgd
  double moving_rate = 0;       // easgd; 0: 0.9 / workers

  double pace_ms = 0;   // above 0: wait so long instead of computing
  std::string slow;     // RANK:FACTOR
  std::string emulate;  // hosts=N,link=RATE; empty: no emulated cluster

  std::string device = "cpu";
  std::string transport = "auto";
  std::string algorithm = "auto";
  std::string memory_format = "auto";  // auto | contiguous | channels-last
  std::uint64_t bucket_bytes = 1 << 20;
  int threads = 0;           // a worker; 0: its share of the cores
  double timeout_s = 30;     // a stalled peer's
  bool no_evaluate = false;  // else on the test part, after each epoch and at the end
  bool trace = false;
  std::int64_t checkpoint_every = 0;  // steps; 0: after each epoch and at the end
  std::string out;                    // empty: runs/<model>-<strategy>-<time>
  std::string resume;                 // a run folder

  bool operator==(const TrainConfig&) const = default;
};

// A key that is missing keeps its default.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(TrainConfig, model, classes, image_size, vocabulary,
                                                embedding, hidden, unroll, sampled, data, strategy, workers,
                                                steps, epochs, batch, global_batch, optimizer, lr, momentum,
                                                beta1, beta2, epsilon, weight_decay, scale_lr, warmup_steps,
                                                seed, servers, colocate, server_role, backup_workers,
                                                staleness, damp_stale, local_aggregation, partitions,
                                                sync_every, moving_rate, pace_ms, slow, emulate, device,
                                                transport, algorithm, memory_format, bucket_bytes, threads,
                                                timeout_s, no_evaluate, trace, checkpoint_every, out, resume)

// `slow` as numbers; factor 1 for everyone if it is empty. Throws ConfigError.
struct Slow {
  int rank = -1;
  double factor = 1;
};
Slow parse_slow(const TrainConfig& config);

// `partitions` as a number; what auto begins with. Throws ConfigError.
int parse_partitions(const TrainConfig& config);

// Checks what can be checked without data or model. Throws ConfigError that names the flag.
void validate(const TrainConfig& config);

// The whole of it as a two-column text.
std::string resolved_table(const TrainConfig& config);

}  // namespace tutti::config
