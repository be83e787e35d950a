#include "lab/bench_allreduce.h"

#include <algorithm>

#include "base/error.h"
#include "collectives/algorithms.h"
#include "engines/engines.h"
#include "train/measure.h"

namespace tutti::lab {
namespace {

using collectives::ReduceOp;

constexpr int kWarmUp = 3;
constexpr double kSecondsARow = 0.5;

float input(int rank, int iteration, std::size_t i) {
  return static_cast<float>(static_cast<int>(i & 15) + rank + (iteration & 7));
}

void fill(std::span<float> values, int rank, int iteration) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = input(rank, iteration, i);
}

void verify(std::span<const float> values, int world, int iteration) {
  const int ranks = world * (world - 1) / 2;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int sum = world * (static_cast<int>(i & 15) + (iteration & 7)) + ranks;
    wrong += values[i] != static_cast<float>(sum);
  }
  if (wrong > 0) throw RunError(fmt::format("all-reduce of {} elements: {} are wrong", values.size(), wrong));
}

struct Timed {
  std::vector<double> seconds;  // of each iteration, of the slowest rank
  int verified = 0;             // iterations whose sum was right
};

Timed time_iterations(collectives::Collectives& all, std::span<float> values, int iterations) {
  Timed timed;
  auto& seconds = timed.seconds;
  const int me = to_int(all.rank());
  for (int i = 0; i < iterations; ++i) {
    fill(values, me, i);
    all.barrier("benchmark");
    const auto begin = Clock::now();
    all.all_reduce({values.data(), values.size(), DType::f32}, ReduceOp::sum, "benchmark");
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    verify(values, all.world(), i);
    ++timed.verified;
  }
  all.all_reduce({seconds.data(), seconds.size(), DType::f64}, ReduceOp::max, "times");
  return timed;
}

}  // namespace

std::unique_ptr<collectives::Collectives> make_engine(const BenchSpec& spec, net::Transport& transport,
                                                      engines::EngineOptions options) {
  options.algorithm = collectives::parse_algorithm(spec.algorithm);
  return engines::find_engine(spec.engine).make(transport, options);
}

nlohmann::json bench_allreduce(collectives::Collectives& all, const BenchSpec& spec) {
  auto rows = nlohmann::json::array();
  for (const std::uint64_t bytes : spec.sizes) {
    const std::size_t count = bytes / sizeof(float);
    const auto memory = all.allocate(count * sizeof(float));
    const std::span values(reinterpret_cast<float*>(memory.data()), count);
    const auto began = Clock::now();
    time_iterations(all, values, kWarmUp);
    double pilot = std::chrono::duration<double>(Clock::now() - began).count() / kWarmUp;
    all.all_reduce({&pilot, 1, DType::f64}, ReduceOp::max, "pilot");
    const int iterations =
        spec.iterations > 0
            ? spec.iterations
            : static_cast<int>(std::clamp(kSecondsARow / std::max(pilot, 1e-9), 10.0, 2000.0));
    const Timed timed = time_iterations(all, values, iterations);
    const double seconds = train::quantile(timed.seconds, 0.5);
    const auto method = all.method(collectives::Operation::all_reduce, bytes);
    rows.push_back({{"bytes", count * sizeof(float)},
                    {"seconds", seconds},
                    {"ranks", all.world()},
                    {"transport", spec.transport},
                    {"wire", spec.wire},
                    {"engine", spec.engine},
                    {"algorithm", method.algorithm},
                    {"reason", method.reason},
                    {"iterations", iterations},
                    {"verified", timed.verified == iterations},
                    {"bytes_per_second", static_cast<double>(count * sizeof(float)) / seconds}});
  }
  return rows;
}

}  // namespace tutti::lab
