#include "cli/joined.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "cli/command.h"
#include "config/environment.h"
#include "launch/join.h"
#include "mpi/mpi.h"

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

}  // namespace

bool started_by_others() {
  if (!config::mpi_world()) return false;
  const std::string why_not = mpi::why_not();
  if (!why_not.empty()) throw ConfigError(fmt::format("mpirun has started this process, and {}", why_not));
  return true;
}

int in_meeting(const std::function<int(rendezvous::Meeting&)>& command) {
  const auto meeting = mpi::Meeting::join();
  try {
    const int code = command(*meeting);
    if (code == 0) meeting->finish();
    return code;
  } catch (const UsageError&) {
    if (meeting->rank() == Rank{0}) throw;
    return 2;
  }
}

launch::Outcome run_in_meeting(rendezvous::Meeting& meeting, const launch::JobSpec* spec,
                               const launch::Listener& listener) {
  std::optional<launch::JobSpec> own;
  if (spec != nullptr) {
    own = *spec;
    name_memory_files(own->payload, fmt::format("/proc/{}/", ::getpid()));
  }
  const bool first = meeting.rank() == Rank{0};
  const launch::Listener silent{[](Rank, bool, const std::string&) {}, [](Rank, const nlohmann::json&) {}};
  auto outcome = launch::run_joined(meeting, own ? &*own : nullptr, first ? listener : silent, work);
  if (!first && outcome.exit_code != 0) fmt::print(stderr, "tutti: {}\n", outcome.line);
  return outcome;
}

}  // namespace tutti::cli
