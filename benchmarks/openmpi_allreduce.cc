// Open MPI's all-reduce, timed the way `tutti bench allreduce` times ours (docs/benchmarks.md defines the
// metrics).
//
//   mpirun -np 2 openmpi_allreduce --sizes 1K,4M --label openmpi-shm > rows.json
//
// With --as-engine under the conditions that tutti's engine mpi has. A process with several threads must
// ask for MPI_THREAD_SERIALIZED, from which on Open MPI 4.1 locks in every call. And a barrier that can be
// given up is MPI_Ibarrier, after which ranks begin less evenly than after MPI_Barrier. Together that is up
// to half of a call of a few KiB, and nothing of a long one.
//
// Every iteration refills the buffer with small integers that depend on rank, iteration and position, so that
// the sum is exact in float32 and a stale or half-done result cannot pass; then barrier, clock, all-reduce in
// place, clock, and a check of every element. The time of an iteration is that of its slowest rank.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr double kSecondsPerSize = 0.5;
constexpr int kFewestIterations = 10;
constexpr int kMostIterations = 2000;
constexpr int kWarmUps = 3;

struct Options {
  std::vector<std::size_t> sizes{1 << 10, 16 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20};
  int iterations = 0;  // 0: as many as fit in kSecondsPerSize
  std::string label = "openmpi";
  bool as_engine = false;
};

[[noreturn]] void usage(const std::string& complaint) {
  std::fprintf(
      stderr,
      "openmpi_allreduce: %s\nusage: openmpi_allreduce [--sizes 1K,4M] [--iterations N] [--label L]\n",
      complaint.c_str());
  std::exit(2);
}

std::size_t parse_size(const std::string& text) {
  char* end = nullptr;
  const auto value = std::strtoull(text.c_str(), &end, 10);
  const std::string unit(end);
  if (unit.empty()) return value;
  if (unit == "K") return value << 10;
  if (unit == "M") return value << 20;
  usage("'" + text + "' is not a size");
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&]() -> std::string {
      if (++i == argc) usage(flag + " needs a value");
      return argv[i];
    };
    if (flag == "--sizes") {
      options.sizes.clear();
      std::istringstream list(value());
      for (std::string size; std::getline(list, size, ',');) options.sizes.push_back(parse_size(size));
    } else if (flag == "--iterations") {
      options.iterations = std::atoi(value().c_str());
    } else if (flag == "--label") {
      options.label = value();
    } else if (flag == "--as-engine") {
      options.as_engine = true;
    } else {
      usage("unknown flag " + flag);
    }
  }
  return options;
}

int value_at(int rank, int iteration, std::size_t i) {
  return static_cast<int>((static_cast<std::uint32_t>(i) + 13U * static_cast<std::uint32_t>(iteration) +
                           5U * static_cast<std::uint32_t>(rank)) &
                          63U);
}

class Bench {
 public:
  Bench(std::size_t bytes, bool as_engine) : as_engine_(as_engine), buffer_(bytes / sizeof(float)) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &world_);
  }

  // Seconds this rank spent in the all-reduce.
  double iterate(int iteration) {
    for (std::size_t i = 0; i < buffer_.size(); ++i) {
      buffer_[i] = static_cast<float>(value_at(rank_, iteration, i));
    }
    await_all();
    const double start = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, buffer_.data(), static_cast<int>(buffer_.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    const double seconds = MPI_Wtime() - start;
    wrong_ += count_wrong(iteration);
    return seconds;
  }

  // How many iterations fill the time for one size; the same answer on every rank.
  int choose_iterations() {
    const double start = MPI_Wtime();
    for (int k = 0; k < kWarmUps; ++k) iterate(-1 - k);
    double each = (MPI_Wtime() - start) / kWarmUps;
    MPI_Bcast(&each, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return std::clamp(static_cast<int>(kSecondsPerSize / each), kFewestIterations, kMostIterations);
  }

  bool verified_everywhere() const {
    int good = wrong_ == 0 ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return good == 1;
  }

 private:
  void await_all() const {
    if (!as_engine_) {
      MPI_Barrier(MPI_COMM_WORLD);
      return;
    }
    MPI_Request barrier = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
    for (int here = 0; here == 0;) MPI_Test(&barrier, &here, MPI_STATUS_IGNORE);
  }

  std::size_t count_wrong(int iteration) const {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < buffer_.size(); ++i) {
      int expected = 0;
      for (int r = 0; r < world_; ++r) expected += value_at(r, iteration, i);
      wrong += buffer_[i] != static_cast<float>(expected) ? 1U : 0U;
    }
    return wrong;
  }

  const bool as_engine_;
  int rank_ = 0;
  int world_ = 1;
  std::vector<float> buffer_;
  std::size_t wrong_ = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, options.as_engine ? MPI_THREAD_SERIALIZED : MPI_THREAD_SINGLE, &provided);
  int rank = 0;
  int world = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  bool all_good = true;
  std::string rows;
  for (const std::size_t bytes : options.sizes) {
    Bench bench(bytes, options.as_engine);
    const int chosen = bench.choose_iterations();
    const int iterations = options.iterations > 0 ? options.iterations : chosen;
    std::vector<double> seconds;
    for (int k = 0; k < iterations; ++k) seconds.push_back(bench.iterate(k));
    MPI_Allreduce(MPI_IN_PLACE, seconds.data(), iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    const bool good = bench.verified_everywhere();
    all_good = all_good && good;
    char row[256];
    std::snprintf(row, sizeof row,
                  "%s\n  {\"bytes\": %zu, \"seconds\": %.9f, \"ranks\": %d, \"transport\": \"%s\", "
                  "\"algorithm\": \"default\", \"iterations\": %d, \"verified\": %s}",
                  rows.empty() ? "" : ",", bytes, median(seconds), world, options.label.c_str(), iterations,
                  good ? "true" : "false");
    rows += row;
  }
  if (rank == 0) std::printf("[%s\n]\n", rows.c_str());
  MPI_Finalize();
  return all_good ? 0 : 1;
}
