#include "cli/joined.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "cli/command.h"
#include "config/environment.h"
#include "config/flags.h"
#include "joining/meet.h"
#include "launch/join.h"

namespace tutti::cli {
namespace {

// Files in memory are named through this process, from which the others of the host open them.
void name_memory_files(nlohmann::json& value, const std::string& of_process) {
  constexpr std::string_view kOwn = "/proc/self/";
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.starts_with(kOwn)) value = of_process + text.substr(kOwn.size());
  } else if (value.is_structured()) {
    for (auto& part : value) name_memory_files(part, of_process);
  }
}

// Rank 0 says why nothing begins, whoever has found it out. The others wait for that, because whoever has
// started us may end all as soon as one has ended. Returns the exit code.
int leave(rendezvous::Meeting& meeting, const std::exception& why, int code) {
  if (meeting.rank() == Rank{0}) explain(why);
  try {
    meeting.all_gather("");
  } catch (const RunError&) {  // the others have gone
  }
  return code;
}

}  // namespace

std::optional<config::Placement> started_by_others(const config::JoinSettings& settings) {
  auto placement = config::placement(settings);
  // A worker of ours is another command.
  if (!placement || placement->job_descriptor) return std::nullopt;
  if (placement->size == 1 && !mpi::can_reach(*placement)) return std::nullopt;
  // Of how many there are, rank 0 speaks for all; of a rank, only the one that has it.
  if (!placement->conflict.empty() && (placement->rank == 0 || placement->ranks_conflict))
    fmt::print(stderr, "tutti: {}\n", placement->conflict);
  return placement;
}

void require_own_launcher(std::string_view command) {
  const auto placement = config::placement(config::join_settings());
  if (!placement || placement->job_descriptor || placement->size == 1) return;
  throw ConfigError(
      fmt::format("{} starts its processes itself, which {} has done already; run it once, outside of that",
                  command, placement->launcher));
}

void require_transport(const std::string& transport) {
  if (transport != "mpi") return;
  if (const auto why_not = mpi::why_not(); !why_not.empty())
    throw ConfigError(fmt::format("--transport mpi: {}", why_not));
}

int in_meeting(const config::Placement& placement, const config::JoinSettings& settings, mpi::Threads threads,
               const std::function<int(rendezvous::Meeting&)>& command) {
  const auto meeting = mpi::can_reach(placement)
                           ? mpi::join(threads)
                           : joining::meet(placement, settings, config::private_folder());
  try {
    const int code = command(*meeting);
    if (code == 0) meeting->finish();
    return code;
  } catch (const launch::CalledOff& e) {
    return leave(*meeting, e, e.exit_code);
  } catch (const UsageError& e) {
    return call_off(*meeting, e);
  }
}

int call_off(rendezvous::Meeting& meeting, const std::exception& why) {
  const int code = launch::exit_code_of(launch::failure_of(why));
  try {
    launch::call_off(meeting, why.what(), code);
  } catch (const RunError&) {  // the others have gone
  }
  return leave(meeting, why, code);
}

launch::Outcome run_in_meeting(rendezvous::Meeting& meeting, const launch::JobSpec* spec,
                               const launch::Listener& listener, launch::ProcessSignals* signals) {
  std::optional<launch::JobSpec> own;
  if (spec != nullptr) {
    own = *spec;
    name_memory_files(own->payload, fmt::format("/proc/{}/", ::getpid()));
  }
  const bool first = meeting.rank() == Rank{0};
  const launch::Listener silent{[](Rank, bool, const std::string&) {}, [](Rank, const nlohmann::json&) {}};
  auto outcome = launch::run_joined(meeting, own ? &*own : nullptr, first ? listener : silent, work, signals);
  const bool failed = outcome.exit_code != 0 && outcome.interrupted_by == 0;
  if (!first && failed) fmt::print(stderr, "tutti: {}\n", outcome.line);
  return outcome;
}

}  // namespace tutti::cli
