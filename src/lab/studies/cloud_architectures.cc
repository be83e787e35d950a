// Study A: parameter server against ring all-reduce in a cloud, 1 to 6 workers, five networks.
#include <fmt/format.h>

#include "lab/studies/cloud_architectures.h"
#include "lab/studies/studies.h"

namespace tutti::lab::studies {
namespace {

constexpr const char* kSharded = "a server a worker";
constexpr const char* kColocated = "colocated";
constexpr const char* kNoOverlap = "no overlap";

config::TrainConfig base_of(const char* model, int workers) {
  config::TrainConfig c;
  c.model = model;
  c.data = "synthetic";
  c.workers = workers;
  c.batch = 32;
  c.optimizer = "sgd";
  c.lr = 0.0001;
  c.steps = 3;
  c.threads = 1;
  c.device_tflops = kDeviceTflops;
  c.emulate = fmt::format("link={}", kLink);
  c.no_checkpoint = true;
  c.timeout_s = 300;  // a step may take half a minute
  return c;
}

void plan_network(const char* model, Scale scale, const std::string& folder, std::vector<PlannedRun>& runs) {
  const bool full = scale == Scale::full;
  for (const int workers : full ? std::vector{1, 2, 3, 4, 5, 6} : std::vector{1, 2, 4}) {
    auto ring = base_of(model, workers);
    ring.strategy = "ring";
    runs.push_back(planned(folder, ring));
    auto servers = base_of(model, workers);
    servers.strategy = "ps-sync";
    servers.servers = 1;
    runs.push_back(planned(folder, servers));
    if (!full || workers % 2 != 0) continue;
    servers.servers = workers;
    runs.push_back(planned(folder, servers, kSharded));
    servers.colocate = true;
    runs.push_back(planned(folder, servers, kColocated));
    ring.no_overlap = true;
    runs.push_back(planned(folder, ring, kNoOverlap));
  }
}

std::vector<PlannedRun> plan(Scale scale, const std::string& folder) {
  std::vector<PlannedRun> runs;
  for (const char* model : scale == Scale::full
                               ? std::vector{"alexnet", "vgg16", "vgg19", "resnet50", "resnet152"}
                               : std::vector{"alexnet", "resnet50"}) {
    plan_network(model, scale, folder, runs);
  }
  return runs;
}

}  // namespace

Study cloud_architectures() {
  return {
      .name = "cloud-architectures",
      .title = "Architectures in the cloud: parameter server against ring all-reduce",
      .ran =
          "Theirs: 8 nodes with a K80 each, CIFAR-10, batch 32 a worker, SGD 0.0001, 1 to 6 workers. Ours: "
          "the networks in their true sizes, gradients and parameters sent for real over emulated links "
          "of 1 Gbit/s, one host a process; computing is paced as a device of 1.5 TFLOPS would (half a "
          "K80 in such networks), not done. The claims about the server's traffic and about what a ring's "
          "worker "
          "sends hold by construction: our protocol and our schedule are made so, and what is checked is "
          "that "
          "the program keeps to them.",
      .plan = plan,
      .conclude = conclude_cloud_architectures};
}

}  // namespace tutti::lab::studies
