// The only place that reads the environment, apart from the variables that mirror flags (flags.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/launchers.h"

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

// Whether somebody has said how malloc works: by $GLIBC_TUNABLES, $MALLOC_MMAP_THRESHOLD_,
// $MALLOC_TRIM_THRESHOLD_ or $MALLOC_TOP_PAD_.
bool has_malloc_settings();

// The variables that change which kernels libtorch and the libraries below it choose, and with them the order
// of additions: those that are set, each as "NAME=value", in the order of their names.
std::vector<std::string> kernel_variables();

// What workers of a reproducible run are given, so that their kernels are the same on every host: those of
// this process. MKL adds up in another order where an array begins at another address, unless it is told not
// to; so it is, where libtorch has it and nobody has told it anything. An OpenBLAS with threads of its own
// takes as many as the process has cores, and cuts products by them; unless told, it takes `threads`.
std::vector<std::string> reproducible_kernels(bool has_mkl, int threads);

// What gives a process these of kernel_variables(), "NAME=value", and no others: the names of the others
// follow, without a value, as the launcher takes them (launch/spawn.h).
std::vector<std::string> only_kernels(std::vector<std::string> kernels);

// The path of a program as a shell would find it: by its name in $PATH, or as it is written if that has a
// slash. Throws ConfigError if there is none that can be run.
std::string find_program(const std::string& name);

// The two ends of the ssh connection that has started this process, by $SSH_CONNECTION; empty without one.
struct SshConnection {
  std::string caller;
  std::string address;  // this host's
};
SshConnection ssh_connection();

// The place that a launcher has given this process, if one has started it. Throws ConfigError.
std::optional<Placement> placement(const JoinSettings& settings);

// A folder for what is this user's alone and of no use after a reboot: $XDG_RUNTIME_DIR/tutti, or
// /tmp/tutti-UID where that is not there. It may not be made yet.
std::filesystem::path private_folder();

}  // namespace tutti::config
