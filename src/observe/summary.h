// summary.json: a complete run in figures. The struct is the file: a field is a key of its name (`by_servers`
// and `until` hold several, and `test` those that begin with "test_"), and summary.cc lists each of them
// once.
//
// Rank 0 writes the file when the run is complete, and that it is there says so. The launcher adds what only
// it knows. Milliseconds are medians of a step where nothing else is said.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "observe/machine.h"

namespace tutti::observe {

inline constexpr const char* kSummaryFile = "summary.json";

struct StepMs {
  double median = 0;
  double p90 = 0;
  bool operator==(const StepMs&) const = default;
};

// A try of a run that failed, and the step from which the next one went on.
struct Restart {
  std::string because;
  std::int64_t from_step = 0;
  bool operator==(const Restart&) const = default;
};

// How many versions behind the gradients were that became part of an update.
struct Staleness {
  double mean = 0;
  std::int64_t max = 0;
  std::map<std::int64_t, std::int64_t> histogram;  // versions -> gradients
  bool operator==(const Staleness&) const = default;
};

// What all servers together have counted.
struct ServersFigures {
  std::uint64_t bytes_sent_per_server = 0;
  std::int64_t pieces_applied = 0;   // gradients of pieces that became part of an update
  std::int64_t pieces_dropped = 0;   // came too late
  std::int64_t pieces_repeated = 0;  // came twice
  std::int64_t max_lead = 0;         // pushes that a worker was ahead of the slowest when it was let go on
  Staleness staleness;
  bool operator==(const ServersFigures&) const = default;
};

// What was tried to find how many partitions tables are best cut into.
struct PartitionsTried {
  struct Trial {
    int partitions = 0;
    double ms = 0;  // that a step waited for its rows
    bool operator==(const Trial&) const = default;
  };
  std::vector<Trial> trials;
  std::optional<int> chosen;  // once all were tried
  std::optional<std::string> reason;
  bool operator==(const PartitionsTried&) const = default;
};

// A collective that moved gradients.
struct CollectiveUsed {
  std::string operation;
  std::string algorithm;
  std::uint64_t bytes = 0;  // of the first bucket, for which it was chosen
  std::string reason;
  bool operator==(const CollectiveUsed&) const = default;
};

// What came of --until.
struct Until {
  struct Target {
    std::string figure;
    double value = 0;
    bool operator==(const Target&) const = default;
  };
  Target target;
  bool reached = false;
  std::optional<double> time_to_target_seconds;
  bool operator==(const Until&) const = default;
};

// What passed the links of an emulated cluster: Ethernet frames as a wire would carry them.
struct Emulated {
  struct Host {
    int host = 0;
    std::vector<int> ranks;
    std::uint64_t bytes_sent = 0;
    std::uint64_t packets_sent = 0;
    std::uint64_t bytes_received = 0;
    std::uint64_t packets_received = 0;
    std::uint64_t packets_dropped = 0;  // either way: a queue was full
    bool operator==(const Host&) const = default;
  };
  int hosts = 0;
  std::string link;
  std::vector<Host> per_host;
  bool operator==(const Emulated&) const = default;
};

// Which samples an epoch's steps were made with, as the workers have counted them, whoever took which.
struct EpochSamples {
  std::int64_t epoch = 0;     // from 1
  std::uint64_t samples = 0;  // each as often as it was used
  std::string digest;         // of their numbers, in any order (train/sample_ledger.h)
  bool partial = false;       // steps of this epoch were made of which nothing is known here
  bool operator==(const EpochSamples&) const = default;
};

struct Summary {
  std::string model;
  std::string data;
  std::string strategy;
  int workers = 0;
  int servers = 0;
  std::int64_t steps = 0;  // that the model has behind it
  std::int64_t batch_per_worker = 0;
  std::uint64_t seed = 0;
  bool reproducible = false;

  double samples_per_second = 0;
  double steps_per_second = 0;
  double gradients_per_second = 0;
  std::optional<double> words_per_second;  // of a language model
  std::vector<std::int64_t> steps_per_worker;
  double pace_ms = 0;  // above 0: nothing was computed
  std::string slow;
  StepMs step_ms;  // of rank 0
  double compute_ms = 0;
  double exchange_ms = 0;
  double exposed_exchange_ms = 0;
  double finite_check_ms = 0;
  double checkpoint_hold_ms = 0;
  double checkpoint_copy_ms = 0;
  double wall_seconds = 0;
  std::uint64_t bytes_sent_per_worker = 0;
  std::vector<std::int64_t> peak_memory_bytes;  // of each worker
  std::int64_t parameter_bytes = 0;

  std::optional<double> train_loss;  // over the last epoch; none where nothing was learned
  // What the model measures on the test part, by name; none where it was not evaluated. Every summary has
  // these two.
  std::map<std::string, std::optional<double>> test = {{"accuracy", std::nullopt}, {"loss", std::nullopt}};
  std::optional<Until> until;

  std::int64_t skipped_steps = 0;
  std::vector<int> dropped_workers;
  std::int64_t restarts = 0;
  std::vector<Restart> restart_causes;

  std::vector<CollectiveUsed> collectives;
  std::optional<ServersFigures> by_servers;
  std::vector<nlohmann::json> routes;  // as exchange::Route writes them, here and in checkpoints
  std::optional<int> partitions;       // of each table that goes by rows
  std::optional<PartitionsTried> partition_search;

  std::string parameters_sha256;             // rank 0's
  std::vector<std::string> replicas_sha256;  // each worker's
  std::string initial_parameters_sha256;     // before the first step
  std::string samples_sha256;                // which samples the workers used, in their order
  std::vector<EpochSamples> sample_ledger;   // the same by epoch, equal for every number of workers
  std::string data_sha256;
  std::optional<std::string> model_sha256;  // of the file of a network of one's own
  Machine machine;
  nlohmann::json config = nlohmann::json::object();  // resolved, as config::TrainConfig writes it
  std::string version;

  // The launcher's.
  std::optional<Emulated> emulated;
  std::optional<std::uint64_t> rejected_connections;

  bool operator==(const Summary&) const = default;
};

// from_json leaves a field whose key is missing as it is, but for those on which tables, verdicts and pages
// count, and does not mind keys that it does not know. Throws DataError that names the key and what is wrong.
void to_json(nlohmann::json& json, const Summary& summary);
void from_json(const nlohmann::json& json, Summary& summary);

// Parts of it that are written elsewhere, too.
void to_json(nlohmann::json& json, const Restart& restart);
void from_json(const nlohmann::json& json, Restart& restart);
void to_json(nlohmann::json& json, const Emulated& emulated);

// Throws DataError that names the file, also where it is no summary.
Summary read_summary(const std::filesystem::path& run_folder);
// The same for those who take figures by their names: all that the file says.
nlohmann::json read_summary_json(const std::filesystem::path& run_folder);

// The only way by which the file comes to be: whole or not at all. Throws RunError.
void write_summary(const std::filesystem::path& run_folder, const Summary& summary);

// What the launcher of a run knows when all processes have ended; `emulated` where it ran on such a cluster.
// Throws DataError if there is no summary to add it to, RunError.
void add_to_summary(const std::filesystem::path& run_folder, const std::optional<Emulated>& emulated,
                    std::uint64_t rejected_connections);

// What makes a run no plain training: "paced at 20 ms, slowed 3:5, emulated hosts=6,link=1gbit"; else empty.
std::string conditions_of(const Summary& summary);

// Whether all replicas hold the same parameters.
bool replicas_agree(const Summary& summary);

}  // namespace tutti::observe
