#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/train_command.h"
#include "lab/bench_allreduce.h"
#include "launch/launcher.h"
#include "net/inproc.h"

namespace tutti::cli {
namespace {

struct Flags {
  int ranks = 2;
  std::string transport = "shm";
  std::string algorithm = "auto";
  std::string sizes = "1K,16K,64K,512K,4M,32M";
  int iterations = 0;
  double timeout_s = 30;
  bool json = false;
};

constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;

lab::BenchSpec check(const Flags& f) {
  lab::BenchSpec spec{parse_bytes_list(f.sizes), f.transport, f.algorithm, f.iterations};
  collectives::parse_algorithm(f.algorithm);
  if (f.ranks < 1 || f.ranks > 1024)
    throw ConfigError(fmt::format("--ranks must be 1 to 1024, not {}", f.ranks));
  if (f.iterations < 0)
    throw ConfigError(fmt::format("--iterations must be at least 1, not {}", f.iterations));
  if (!(f.timeout_s > 0 && f.timeout_s <= 86400)) {
    throw ConfigError(fmt::format("--timeout must be between 0 and 86400 seconds, not {}", f.timeout_s));
  }
  if (f.transport != "inproc" && f.transport != "shm" && f.transport != "tcp") {
    throw ConfigError(fmt::format("--transport must be inproc, shm or tcp, not {}", f.transport));
  }
  for (const auto bytes : spec.sizes) {
    if (bytes % sizeof(float) != 0 || bytes > kLargest) {
      throw ConfigError(
          fmt::format("--sizes: {} is not a multiple of 4 up to {}", bytes, human_bytes(kLargest)));
    }
  }
  return spec;
}

Clock::duration timeout_of(const Flags& f) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(f.timeout_s));
}

nlohmann::json run_threads(const Flags& f, const lab::BenchSpec& spec) {
  nlohmann::json rows;
  net::run_as_threads(net::Medium::memory, f.ranks, timeout_of(f), [&](net::Transport& t) {
    collectives::Communicator all(t, collectives::parse_algorithm(spec.algorithm));
    auto mine = lab::bench_allreduce(all, spec);
    if (t.rank() == Rank{0}) rows = std::move(mine);
  });
  return rows;
}

launch::Outcome run_processes(const Flags& f, const lab::BenchSpec& spec, nlohmann::json& rows) {
  launch::JobSpec job;
  job.program = this_program();
  job.workers = f.ranks;
  job.task = lab::kBenchTask;
  job.payload = spec;
  job.transport = f.transport;
  job.timeout = timeout_of(f);
  const launch::Listener listener{
      [](Rank r, bool, const std::string& line) { fmt::print(stderr, "[{}] {}\n", to_int(r), line); },
      [&](Rank, const nlohmann::json& line) { rows = line.at("rows"); }};
  return launch::run(job, listener);
}

int bench(const Flags& f) {
  const auto spec = check(f);
  nlohmann::json rows;
  if (f.transport == "inproc") {
    rows = run_threads(f, spec);
  } else if (const auto outcome = run_processes(f, spec, rows); outcome.exit_code != 0) {
    fmt::print(stderr, "tutti: {}\n", outcome.line);
    return outcome.exit_code;
  }
  if (f.json) {
    fmt::print("{}\n", rows.dump(2));
    return 0;
  }
  fmt::print("{:>10} {:>6} {:>9} {:<17} {:>12} {:>10} {:>10}\n", "bytes", "ranks", "transport", "algorithm",
             "time us", "GB/s", "iterations");
  for (const auto& r : rows) {
    fmt::print("{:>10} {:>6} {:>9} {:<17} {:>12.2f} {:>10.3f} {:>10}\n", r["bytes"].get<std::uint64_t>(),
               r["ranks"].get<int>(), r["transport"].get<std::string>(), r["algorithm"].get<std::string>(),
               r["seconds"].get<double>() * 1e6, r["bytes_per_second"].get<double>() / 1e9,
               r["iterations"].get<int>());
  }
  fmt::print("{}: {}\n", "auto chose as it did because", rows.back()["reason"].get<std::string>());
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("bench", "Measure one piece alone, verified while it is timed");
  command->require_subcommand(1);
  auto* allreduce = command->add_subcommand("allreduce", "All-reduce of float32 over sizes");
  const auto f = std::make_shared<Flags>();
  allreduce->add_option("--ranks", f->ranks, "processes, or threads for inproc")->capture_default_str();
  allreduce->add_option("--transport", f->transport, "inproc | shm | tcp")->capture_default_str();
  allreduce->add_option("--algorithm", f->algorithm, "auto | ring | direct | halving-doubling | tree")
      ->capture_default_str();
  allreduce->add_option("--sizes", f->sizes, "bytes, e.g. 1K,64K,4M")->capture_default_str();
  allreduce->add_option("--iterations", f->iterations, "a size; 0: what fits half a second")
      ->capture_default_str();
  allreduce->add_option("--timeout", f->timeout_s, "seconds until a rank that does not answer ends it")
      ->capture_default_str();
  allreduce->add_flag("--json", f->json, "rows as a JSON array");
  allreduce->callback([f, &action] { action = [f] { return bench(*f); }; });
}

}  // namespace tutti::cli
