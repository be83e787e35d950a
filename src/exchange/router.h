// Which way each parameter's gradient goes: with all others by all-reduce, or as rows to the servers that
// hold it. Pure functions of what was measured; each decision says why.
//
// All-reduce moves the whole of a table for every worker, whatever the step has touched. Rows move only what
// was touched, but a server takes them from all workers. So rows win while few are touched.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "collectives/collectives.h"

namespace tutti::exchange {

struct ParameterFacts {
  std::string name;
  std::size_t bytes = 0;
  std::size_t rows = 0;  // of an embedding table; 0 for everything else
  double density = 1;    // fraction of its rows that one worker's step touches
};

// The cluster as gradients see it.
struct ClusterFacts {
  int workers = 1;
  int servers = 1;
  double bytes_per_second = 1e9;      // that a rank sends while it receives
  double seconds_per_message = 1e-5;  // the smallest one
};

enum class Way { all_reduce, servers };

struct Route {
  std::string parameter;
  std::size_t bytes = 0;
  Way way = Way::all_reduce;
  std::string reason = {};  // "dense: 4.7 MB", "sparse: 0.4 % of rows"
  double density = 1;
  double all_reduce_seconds = 0;  // a step, estimated
  double servers_seconds = 0;     // likewise; 0 where there is no choice
};

Route route(const ParameterFacts& parameter, const ClusterFacts& cluster);
// The names of those that go to the servers.
std::vector<std::string> by_servers(const std::vector<Route>& routes);

std::string_view name_of(Way way);
// As summary.json and checkpoints keep them.
void to_json(nlohmann::json& json, const Route& route);
void from_json(const nlohmann::json& json, Route& route);
// As people read them: a line each, the largest first.
std::vector<std::string> table_of(std::vector<Route> routes);

// What links usually do: the same settings give the same routes, and so the same bits, on a busy day, too.
enum class Link { shared_memory, network };
ClusterFacts usual_cluster(int workers, int servers, Link link);

// Times the workers' link with a few small and large messages. All workers call it; all get the same figures,
// but other ones the next time.
ClusterFacts measure_cluster(collectives::Collectives& workers, int servers);

}  // namespace tutti::exchange
