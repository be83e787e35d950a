// The only place that reads the environment, apart from the variables that mirror flags (flags.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tutti::config {

// Where data sets are looked for: $TUTTI_DATA, the user's cache folder, where Debian's packages put theirs.
std::vector<std::filesystem::path> data_roots();

// The user's, $XDG_CACHE_HOME/tutti or ~/.cache/tutti; empty if there is neither.
std::filesystem::path cache_folder();

// Where fetched data goes: $TUTTI_DATA or the user's cache folder. Throws ConfigError if there is neither.
std::filesystem::path data_home();

// Whether $LC_ALL, $LC_CTYPE or $LANG, the first that is set, says that text is UTF-8.
bool text_is_utf8();

// $OMP_NUM_THREADS as a positive number, if somebody set it.
std::optional<int> omp_threads();

// Whether $GLIBC_TUNABLES is set.
bool has_glibc_tunables();

// The path of a program as a shell would find it: by its name in $PATH, or as it is written if that has a
// slash. Throws ConfigError if there is none that can be run.
std::string find_program(const std::string& name);

// How many processes mpirun has started, if it has started this one: $OMPI_COMM_WORLD_SIZE (Open MPI) or
// $PMI_SIZE (MPICH). Throws ConfigError if it is no number.
std::optional<int> mpi_world();

// The two ends of the ssh connection that has started this process, by $SSH_CONNECTION; empty without one.
struct SshConnection {
  std::string caller;
  std::string address;  // this host's
};
SshConnection ssh_connection();

// The descriptor that `tutti launch` names in $TUTTI_JOB_FD, if a launcher has started this process.
std::optional<int> job_descriptor();

}  // namespace tutti::config
