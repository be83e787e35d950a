// A job as TensorFlow describes it: tasks by role, with their addresses, and which of them this process is.
#pragma once

#include <string>
#include <vector>

namespace tutti::config {

// {"cluster": {"chief": ["a:2222"], "worker": ["b:2222"], "ps": ["c:2222"]},
//  "task": {"type": "worker", "index": 0}}
// The chief is a worker, the first. Ranks count workers, then parameter servers.
struct Cluster {
  struct Task {
    std::string host;
    int port = 0;
  };
  std::vector<Task> tasks;  // by rank
  int servers = 0;          // the last so many
  int rank = 0;             // of this process
};

// `task`, as "worker:1", wins over what the text says. `where` begins every complaint: "TF_CONFIG" or
// "--cluster FILE". Throws ConfigError.
Cluster parse_cluster(const std::string& text, const std::string& task, const std::string& where);

}  // namespace tutti::config
