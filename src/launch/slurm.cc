#include "launch/slurm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <regex>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "base/version.h"
#include "launch/spawn.h"

namespace tutti::launch {
namespace {

using Seconds = std::chrono::seconds;

constexpr auto kPatience = std::chrono::minutes(1);

// When one task has ended the others have so long; all of ours end together, or as soon as they miss one.
constexpr int kSecondsToEnd = 60;

// Lines of #SBATCH know quotes, escapes and comments of their own, and names of files also patterns: what
// could be read as one of these is refused.
void require_plain(const std::string& text, const char* flag) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("._,:;+@%/=-~*[]()&|!").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (std::ranges::all_of(text, plain)) return;
  throw ConfigError(fmt::format(
      "{} '{}': a job file takes no spaces, quotes, backslashes, # or other such characters there", flag,
      text));
}

void require_name(const std::string& text, const char* flag) {
  require_plain(text, flag);
  if (text.starts_with('-')) throw ConfigError(fmt::format("{} '{}' begins with a dash", flag, text));
}

void check(const SlurmJob& job) {
  require_name(job.name, "--job-name");
  require_name(job.partition, "--partition");
  require_name(job.account, "--account");
  require_plain(job.log, "--log");
  for (const auto& option : job.options) {
    require_plain(option, "--sbatch");
    if (!option.starts_with("--"))
      throw ConfigError(fmt::format("--sbatch '{}': say an option of sbatch as --name=value", option));
  }
  if (job.time.empty()) return;
  const Seconds limit = slurm_time(job.time);
  if (job.signal_before >= limit)
    throw ConfigError(
        fmt::format("--signal-before {}: that is before the job begins, which has {} s (--time {})",
                    job.signal_before.count(), limit.count(), job.time));
}

}  // namespace

Seconds slurm_time(const std::string& text) {
  static const std::regex kDays(R"((\d{1,5})-(\d{1,2})(?::(\d{1,2}))?(?::(\d{1,2}))?)");
  static const std::regex kShort(R"((\d{1,7})(?::(\d{1,2}))?(?::(\d{1,2}))?)");
  std::smatch m;
  const auto number = [&](std::size_t i) { return m[i].matched ? std::stoll(m[i]) : 0LL; };
  Seconds time{0};
  if (std::regex_match(text, m, kDays)) {
    time = Seconds(((number(1) * 24 + number(2)) * 60 + number(3)) * 60 + number(4));
  } else if (std::regex_match(text, m, kShort)) {
    // minutes, minutes:seconds or hours:minutes:seconds
    time = m[3].matched ? Seconds((number(1) * 60 + number(2)) * 60 + number(3))
                        : Seconds(number(1) * 60 + number(2));
  }
  if (time == Seconds(0))
    throw ConfigError(fmt::format(
        "--time '{}': say it as sbatch takes it, e.g. 90 (minutes), 2:00:00 or 1-12:00:00", text));
  return time;
}

std::string quoted_for_bash(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += R"('\'')";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string job_file(const SlurmJob& job) {
  check(job);
  std::vector<std::string> options = {fmt::format("--job-name={}", job.name),
                                      fmt::format("--nodes={}", job.nodes),
                                      fmt::format("--ntasks-per-node={}", job.tasks_per_node)};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) options.push_back(fmt::format("{}={}", name, value));
  };
  add("--time", job.time);
  add("--partition", job.partition);
  add("--account", job.account);
  // To the tasks, not to this script. A job that is requeued goes on in the same log.
  options.push_back(fmt::format("--signal=TERM@{}", job.signal_before.count()));
  options.insert(options.end(), {"--requeue", "--open-mode=append", "--output=" + job.log});
  options.insert(options.end(), job.options.begin(), job.options.end());
  // PMI carries the job's secret: no file is needed for it (docs/joining.md).
  std::vector<std::string> words = {"srun", "--mpi=pmi2", fmt::format("--wait={}", kSecondsToEnd)};
  for (const auto& word : job.command) words.push_back(quoted_for_bash(word));
  return fmt::format(
      R"(#!/bin/bash
#SBATCH {}
# Written by tutti {}.

cd -- {} || exit 2
{}
status=$?
# When its time was nearly up SLURM told the run, which has saved and ended with 143 (128 + SIGTERM).
if [[ $status -eq 143 ]]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $status
)",
      fmt::join(options, "\n#SBATCH "), kVersion, quoted_for_bash(job.folder), fmt::join(words, " "));
}

std::string submit(const std::string& sbatch, const std::string& job_file) {
  const UniqueFd file = make_memory_file("tutti-job", 0);
  write_all(file.get(), std::as_bytes(std::span(job_file)), "cannot write the job file");
  ::lseek(file.get(), 0, SEEK_SET);
  const auto ran = run_to_end(sbatch, {"--parsable", fmt::format("/proc/self/fd/{}", file.get())},
                              {.inherit = {file.get()}}, kPatience);
  // "17", or "17;cluster" where there are several.
  std::string number = ran.out.substr(0, ran.out.find_first_of(";\n"));
  if (ran.exit_code != 0 || number.empty())
    throw RunError(fmt::format("sbatch has refused the job: {}", ran.error.substr(0, ran.error.find('\n'))));
  return number;
}

}  // namespace tutti::launch
