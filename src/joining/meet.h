// The meeting of the processes that a launcher has started (config/launchers.h), with no library of MPI: the
// mpi room has its own.
#pragma once

#include <filesystem>
#include <memory>

#include "config/launchers.h"
#include "rendezvous/meeting.h"

namespace tutti::joining {

// How this process will meet the others, for people.
std::string describe(const config::Placement& placement, const config::JoinSettings& settings);

// Blocks until all have come, settings.timeout_s at most. `private_folder` is where processes of one host can
// leave each other word, the user's alone. Throws ConfigError, before anything is done, where there is no way
// to a secret; RunError that names the ranks that have not come.
std::unique_ptr<rendezvous::Meeting> meet(const config::Placement& placement,
                                          const config::JoinSettings& settings,
                                          const std::filesystem::path& private_folder);

}  // namespace tutti::joining
