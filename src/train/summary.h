// How a run becomes summary.json and trace.json: every rank tells rank 0, which makes them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "collectives/collectives.h"
#include "observe/summary.h"
#include "observe/trace.h"
#include "train/evaluate.h"
#include "train/measure.h"
#include "train/plan.h"
#include "train/prepare.h"
#include "train/sample_ledger.h"
#include "train/target.h"

namespace tutti::train {

// What a rank tells rank 0 at the end.
struct RankReport {
  int rank = 0;
  double compute_ms = 0;
  double exchange_ms = 0;
  double exposed_exchange_ms = 0;
  double finite_check_ms = 0;
  double train_loss = 0;  // mean over the last epoch
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  double seconds = 0;  // in those steps
  std::uint64_t bytes_sent = 0;
  std::int64_t peak_memory_bytes = 0;  // of the process
  std::string parameters_sha256 = {};
  std::string samples_sha256 = {};  // over the numbers of its samples, in their order
  std::int64_t skipped_steps = 0;
  std::string first_skipped = {};      // what was wrong in the first of them
  std::vector<EpochSums> epochs = {};  // the samples that it has used
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankReport, rank, compute_ms, exchange_ms, exposed_exchange_ms,
                                   finite_check_ms, train_loss, steps, samples, seconds, bytes_sent,
                                   peak_memory_bytes, parameters_sha256, samples_sha256, skipped_steps,
                                   first_skipped, epochs)

// What the steps say; bytes and digests are for the caller to add.
RankReport make_report(const StepSeries& series, std::int64_t steps_per_epoch);

// A collective call: everyone gets all reports, by rank.
std::vector<RankReport> gather_reports(collectives::Collectives& all, const RankReport& mine);

// A collective call: rank 0 writes all ranks' spans into one file. Throws RunError.
void write_trace(collectives::Collectives& all, const observe::Trace& mine,
                 const std::filesystem::path& path);

// What rank 0 knows of the run beside the reports.
struct RunRecord {
  const Setup& setup;
  const RunPlan& plan;
  const StepSeries& series;         // rank 0's
  std::int64_t steps = 0;           // that the model has behind it
  std::int64_t words_a_sample = 0;  // that a language model predicts; 0: it has none
  std::int64_t parameters = 0;
  std::string initial_sha256 = {};  // of the parameters before the first step
  double wall_seconds = 0;
  std::optional<Evaluation> evaluation = std::nullopt;  // the last
  std::optional<Target> target = std::nullopt;
  std::optional<double> seconds_to_target = std::nullopt;
  bool skips_together = true;  // a step is skipped by all workers or by none
  double checkpoint_hold_ms = 0;
  double checkpoint_copy_ms = 0;
  std::vector<Rank> dropped_workers = {};
};

// What workers that skip steps on their own have not told yet: a line for each but rank 0.
std::vector<std::string> who_skipped(const std::vector<RankReport>& ranks);

// All of it but what LiveReplica::add_to and the launcher add.
observe::Summary make_summary(const RunRecord& run, const std::vector<RankReport>& ranks);

}  // namespace tutti::train
