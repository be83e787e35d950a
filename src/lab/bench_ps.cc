#include "lab/bench_ps.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "collectives/communicator.h"
#include "net/group.h"
#include "ps/client.h"
#include "train/measure.h"

namespace tutti::lab {
namespace {

using collectives::ReduceOp;

constexpr int kWarmUp = 3;
constexpr double kSecondsARow = 0.5;

float gradient_at(int worker, std::size_t i) {
  return static_cast<float>(static_cast<int>(i & 7) + worker);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// One core's, over buffers of this size.
double memcpy_rate(std::size_t bytes) {
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes, std::byte{2});
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) {
    const auto begin = Clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    seconds.push_back(seconds_since(begin));
    from[static_cast<std::size_t>(i) % bytes] = to[bytes / 2];  // keeps both alive
  }
  return static_cast<double>(bytes) / train::quantile(seconds, 0.5);
}

class Worker {
 public:
  Worker(net::Transport& everyone, collectives::Communicator& workers, const ps::ServerOptions& options,
         std::uint64_t bytes, std::size_t piece_bytes)
      : workers_(workers),
        parameters_(bytes / sizeof(float)),
        gradients_(as_floats(workers.allocate(bytes))),
        client_(everyone, options, {{parameters_, gradients_, parameters_}},
                {{"benchmark", {parameters_.size()}, "float32"}}, piece_bytes) {
    if (workers_.rank() == Rank{0}) client_.start(0, {});
    workers_.barrier("benchmark");
    client_.pull();
  }

  ~Worker() {
    workers_.barrier("benchmark");
    client_.leave();
    client_.say_goodbye();
  }

  // The slowest worker's median over rounds of `timed`, which follows a fresh gradient and a barrier.
  template <typename Timed>
  double median(int iterations, const Timed& timed) {
    std::vector<double> seconds;
    for (int i = 0; i < iterations; ++i) {
      for (std::size_t k = 0; k < gradients_.size(); ++k)
        gradients_[k] = gradient_at(to_int(workers_.rank()), k);
      workers_.barrier("benchmark");
      const auto begin = Clock::now();
      timed();
      seconds.push_back(seconds_since(begin));
    }
    workers_.all_reduce({seconds.data(), seconds.size(), DType::f64}, ReduceOp::max, "times");
    return train::quantile(seconds, 0.5);
  }

  void push(ps::Answering answering) {
    client_.push(0, 1.0, answering);
    client_.wait(0);
    ++rounds_;
  }

  void pull() { client_.pull(); }

  void verify() {
    client_.pull();
    const auto mean = static_cast<float>(workers_.world() - 1) / 2;
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      wrong += parameters_[k] != -static_cast<float>(rounds_) * (static_cast<float>(k & 7) + mean);
    }
    if (wrong > 0) {
      throw RunError(
          fmt::format("after {} rounds {} of {} parameters are wrong", rounds_, wrong, parameters_.size()));
    }
  }

  // As many as fit, the same on every worker.
  int rounds_that_fit(double pilot) {
    workers_.all_reduce({&pilot, 1, DType::f64}, ReduceOp::max, "pilot");
    return static_cast<int>(std::clamp(kSecondsARow / std::max(pilot, 1e-9), 10.0, 2000.0));
  }

 private:
  static std::span<float> as_floats(std::span<std::byte> bytes) {
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
  }

  collectives::Communicator& workers_;
  std::vector<float> parameters_;
  std::span<float> gradients_;
  ps::Client client_;
  int rounds_ = 0;
};

ps::ServerOptions options_of(const BenchPsSpec& spec) {
  return {.workers = spec.workers,
          .first_server = spec.workers,
          .servers = spec.servers,
          .policy = {.workers = spec.workers},
          .timeout = std::chrono::milliseconds(spec.timeout_ms)};
}

void add_rows(nlohmann::json& rows, Worker& worker, const BenchPsSpec& spec, std::uint64_t bytes) {
  const double copy_rate = memcpy_rate(bytes);
  const auto row = [&](const char* what, const auto& timed) {
    const double pilot = worker.median(kWarmUp, timed);
    const int iterations = spec.iterations > 0 ? spec.iterations : worker.rounds_that_fit(pilot);
    const double seconds = worker.median(iterations, timed);
    worker.verify();
    rows.push_back({{"bytes", bytes},
                    {"seconds", seconds},
                    {"ranks", spec.workers + spec.servers},
                    {"workers", spec.workers},
                    {"servers", spec.servers},
                    {"transport", spec.transport},
                    {"algorithm", what},
                    {"iterations", iterations},
                    {"verified", true},
                    {"bytes_per_second", static_cast<double>(bytes) / seconds},
                    {"memcpy_bytes_per_second", copy_rate}});
  };
  row("push", [&] { worker.push(ps::Answering::bare); });
  row("pull", [&] { worker.pull(); });
  row("push+pull", [&] { worker.push(ps::Answering::whole); });
}

}  // namespace

nlohmann::json bench_ps(net::Transport& everyone, const BenchPsSpec& spec) {
  const auto options = options_of(spec);
  if (to_int(everyone.rank()) >= spec.workers) {
    for (std::size_t i = 0; i < spec.sizes.size(); ++i) ps::serve(everyone, options);
    return nullptr;
  }
  net::Group group(everyone, spec.workers);
  collectives::Communicator workers(group);
  auto rows = nlohmann::json::array();
  for (const std::uint64_t bytes : spec.sizes) {
    Worker worker(everyone, workers, options, bytes, spec.piece_bytes);
    add_rows(rows, worker, spec, bytes);
  }
  return to_int(everyone.rank()) == 0 ? rows : nullptr;
}

}  // namespace tutti::lab
