#include "lab/traffic.h"

#include <fmt/format.h>

#include "base/error.h"
#include "collectives/choose.h"
#include "collectives/schedule.h"
#include "exchange/strategy.h"

namespace tutti::lab {
namespace {

using collectives::Operation;

constexpr double kPayload = 1448;  // of a frame: Ethernet 14, IP 20, TCP 20 and its time stamps 12
constexpr double kHeader = 66;
// The kernel acknowledges what it was handed at once, up to 64 KiB; as measured.
constexpr double kFramesAnAcknowledgement = 44;

// Payload from each process to each other.
class Flows {
 public:
  Flows(const RunShape& shape, const exchange::Strategy& strategy)
      : shape_(shape),
        strategy_(strategy),
        processes_(shape.workers + shape.servers),
        bytes_(size() * size()) {}

  void add(int from, int to, double bytes) { at(from, to) += bytes; }

  // A collective over all parameters, bucket by bucket.
  void add(Operation operation, double times) {
    const auto elements = static_cast<std::size_t>(shape_.bucket_bytes / sizeof(float));
    const double buckets = shape_.parameter_bytes / static_cast<double>(elements * sizeof(float));
    const auto algorithm =
        collectives::choose({operation, collectives::ReduceOp::average, shape_.bucket_bytes, shape_.workers,
                             collectives::Path::network},
                            strategy_.algorithm)
            .algorithm;
    for (int rank = 0; rank < shape_.workers; ++rank) {
      const auto schedule =
          collectives::make_schedule(operation, algorithm, Rank{rank}, shape_.workers, elements);
      for (const auto& round : schedule.rounds) {
        for (const auto& send : round.sends) {
          add(rank, to_int(send.peer),
              static_cast<double>(send.chunk.count * sizeof(float)) * buckets * times);
        }
      }
    }
  }

  std::vector<HostTraffic> by_host() const {
    const int hosts = shape_.colocate ? shape_.workers : processes_;
    std::vector<HostTraffic> traffic(static_cast<std::size_t>(hosts));
    for (int from = 0; from < processes_; ++from) {
      for (int to = 0; to < processes_; ++to) {
        if (from % hosts == to % hosts) continue;
        const double frames = at(from, to) / kPayload;
        auto& sender = traffic[static_cast<std::size_t>(from % hosts)];
        auto& receiver = traffic[static_cast<std::size_t>(to % hosts)];
        pass(sender, receiver, at(from, to) + frames * kHeader, frames);
        const double acknowledgements = frames / kFramesAnAcknowledgement;
        pass(receiver, sender, acknowledgements * kHeader, acknowledgements);
      }
    }
    return traffic;
  }

 private:
  static void pass(HostTraffic& sender, HostTraffic& receiver, double bytes, double packets) {
    sender.bytes_sent += bytes;
    sender.packets_sent += packets;
    receiver.bytes_received += bytes;
    receiver.packets_received += packets;
  }
  std::size_t size() const { return static_cast<std::size_t>(processes_); }
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * size() + static_cast<std::size_t>(to);
  }
  double& at(int from, int to) { return bytes_[index(from, to)]; }
  double at(int from, int to) const { return bytes_[index(from, to)]; }

  const RunShape& shape_;
  const exchange::Strategy& strategy_;
  int processes_;
  std::vector<double> bytes_;
};

// Rank 0 brings the weights and everyone fetches them; in a step everyone brings gradients and gets
// parameters; at the end everyone fetches them once more, and rank 0 again with the optimizer's state.
void add_servers(Flows& flows, const RunShape& shape) {
  const double piece = shape.parameter_bytes / shape.servers;
  const auto steps = static_cast<double>(shape.steps);
  for (int s = 0; s < shape.servers; ++s) {
    const int server = shape.workers + s;
    for (int w = 0; w < shape.workers; ++w) {
      const double first = w == 0 ? 1 : 0;
      flows.add(w, server, piece * (steps + first));
      flows.add(server, w, piece * (steps + 2 + first));
    }
  }
}

}  // namespace

RunShape shape_of(const nlohmann::json& summary) {
  const auto config = summary.at("config").get<config::TrainConfig>();
  return {.strategy = config.strategy,
          .workers = config.workers,
          .servers = config.servers,
          .colocate = config.colocate,
          .parameter_bytes = summary.at("parameter_bytes"),
          .steps = summary.at("steps"),
          .bucket_bytes = config.bucket_bytes};
}

std::vector<HostTraffic> predict_traffic(const RunShape& shape) {
  const auto& strategy = exchange::find_strategy(shape.strategy);
  if (!strategy.same_traffic_every_step) {
    throw ConfigError(fmt::format("the traffic of {} cannot be predicted", shape.strategy));
  }
  Flows flows(shape, strategy);
  if (strategy.servers) {
    add_servers(flows, shape);
  } else {
    flows.add(Operation::broadcast, 1);
    for (const Operation o : strategy.collectives) flows.add(o, static_cast<double>(shape.steps));
  }
  return flows.by_host();
}

double payload_rate(double bits_per_second) {
  return bits_per_second / 8 * kPayload / (kPayload + kHeader);
}

}  // namespace tutti::lab
