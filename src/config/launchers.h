// Who has started this process, and as which of how many. One table: the first launcher in it that speaks
// counts; where another one speaks, too, and says something else, that can be told with both values.
//
// Pure: variables come from whoever reads the environment (config/environment.h).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tutti::config {

// A variable's value; nothing where it is not set, or empty.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;

// What people can say about joining, by flags of `tutti train` or by variables (config/settings.cc).
struct JoinSettings {
  std::string cluster = {};      // a file like TF_CONFIG
  std::string task = {};         // which of its tasks this process is, "worker:1"
  std::string interface = {};    // that ranks listen on, by name or address
  std::string port_range = {};   // that they listen on
  std::string secret_file = {};  // that all processes of a job can read, and nobody else
  int port = 0;                  // at which rank 0 waits for the others; 0: as the launcher says
  double timeout_s = 60;         // until a process that has not come is given up
};

// A process's place among those that a launcher has started.
struct Placement {
  std::string_view launcher;          // its name in the table
  std::optional<int> job_descriptor;  // our own launcher's: it says everything, and nothing below counts
  int rank = 0;
  int size = 1;
  std::optional<int> servers;         // the last so many are to hold parameters, where roles are said
  bool one_host = false;              // all are on this host
  std::string host;                   // rank 0's, by name or address; empty: not said
  int port = 0;                       // at which rank 0 can wait for the others there
  std::optional<int> pmi_descriptor;  // through which PMI is spoken
  std::string_view mpi_library;       // that these processes can use, as it names itself; empty: none
  std::string job;                    // tells this job from others of the same user on this host
  std::string conflict;               // a line about a launcher that says something else; empty: none does
  bool ranks_conflict = false;        // it says another rank, which others of the job may not see
};

struct Launcher {
  std::string_view name;
  std::string_view rank;         // the variable that says this process's number
  std::string_view size;         // and the one that says how many there are
  std::string_view place;        // where they meet, in words
  std::string_view secret;       // how its secret comes to all of them, in words
  std::string_view mpi_library;  // whose processes it starts; empty: of none
  bool starts_launchers;         // others may run inside of it: what those say is no conflict
  // Nothing where it did not start this process. Throws ConfigError that names the variable.
  std::optional<Placement> (*read)(const Launcher& self, const Variables& variables,
                                   const JoinSettings& settings);
};

// In the order in which they are asked.
std::span<const Launcher> launchers();

// The place that the first launcher gives us. Throws ConfigError.
std::optional<Placement> find_placement(const Variables& variables, const JoinSettings& settings);

// The table of docs/joining.md.
std::string launchers_table();

}  // namespace tutti::config
