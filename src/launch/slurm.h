// A training as a job of SLURM's: the file that sbatch is given.
//
//   sbatch ─► the job file ─► srun ─► every task trains ─► a checkpoint when told that the time is nearly up
//     ▲                                                     │ exit code 143
//     └────────────── scontrol requeue ◄────────────────────┘
//
// The job goes on where it stopped, as often as it takes, and its output is appended to one file.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tutti::launch {

struct SlurmJob {
  std::string name;
  int nodes = 1;
  int tasks_per_node = 1;
  std::string time = {};                    // as sbatch takes it; empty: what the partition allows
  std::chrono::seconds signal_before{120};  // the end of that time
  std::string partition = {};               // empty: SLURM's default, as of the account
  std::string account = {};
  std::vector<std::string> options = {};  // further ones of sbatch, "--mem=32G"
  std::string log = {};                   // an absolute path; SLURM puts the job's number for %j
  std::string folder = {};                // where the program runs
  std::vector<std::string> command = {};  // the program and its arguments
};

// The text of the job file. Throws ConfigError that names the flag of `tutti slurm` whose value SLURM would
// not take or would read as something else, and where the signal would come before the job begins.
std::string job_file(const SlurmJob& job);

// "90", "1:30", "2:00:00", "1-0", "1-12:30", "1-12:30:00" as sbatch reads it. Throws ConfigError.
std::chrono::seconds slurm_time(const std::string& text);

// The word in quotes that bash takes for exactly this text.
std::string quoted_for_bash(const std::string& text);

// Hands it to sbatch, given as a path; the result is the job's number. Blocks at most a minute. Throws
// RunError with sbatch's own words.
std::string submit(const std::string& sbatch, const std::string& job_file);

}  // namespace tutti::launch
