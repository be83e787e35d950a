#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/joined.h"
#include "cli/progress.h"
#include "cli/train_command.h"
#include "collectives/algorithms.h"
#include "config/emulation.h"
#include "config/flags.h"
#include "config/settings.h"
#include "engines/engines.h"
#include "lab/bench_allreduce.h"
#include "lab/bench_emulated.h"
#include "lab/bench_ps.h"
#include "launch/join.h"
#include "launch/launcher.h"
#include "net/inproc.h"
#include "net/wire.h"
#include "rendezvous/rehearsal.h"

namespace tutti::cli {
namespace {

struct BenchFlags {
  std::optional<int> ranks;    // of allreduce
  std::optional<int> workers;  // of ps
  std::string transport = "auto";
  std::string wire = "auto";
  std::string emulate;
  std::vector<std::string> engines = {"auto"};
  std::string algorithm = "auto";
  std::string sizes = "1K,16K,64K,512K,4M,32M";
  int iterations = 0;
  double timeout_s = 30;
  bool json = false;
};

constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;

constexpr int kRanks = 2;

// One spec an engine.
std::vector<lab::BenchSpec> per_engine(const BenchFlags& f, const lab::BenchSpec& spec) {
  std::vector<lab::BenchSpec> all;
  for (const std::string& name : f.engines) {
    const auto& engine = engines::find_engine(name);
    engines::require_fits(engine, f.algorithm);
    all.push_back(spec);
    all.back().engine = engine.name;
  }
  return all;
}

// What depends on whether a cluster is emulated.
std::optional<config::Emulation> resolve(BenchFlags& f) {
  const auto emulation = config::parse_emulation(f.emulate);
  if (emulation && f.transport != "auto" && f.transport != "tcp") {
    throw ConfigError(fmt::format("--transport must be tcp with --emulate, not {}", f.transport));
  }
  if (f.transport == "auto") f.transport = emulation ? "tcp" : "shm";
  const auto reach = emulation ? net::Reach::emulated_hosts : net::Reach::one_host;
  f.wire = net::name_of(net::resolve_wire(net::parse_wire(f.wire), reach));
  if (!f.ranks) f.ranks = emulation && emulation->hosts > 0 ? emulation->hosts : kRanks;
  return emulation;
}

lab::BenchSpec check(const BenchFlags& f) {
  lab::BenchSpec spec{parse_bytes_list(f.sizes), f.transport, f.wire, f.algorithm, f.iterations};
  collectives::parse_algorithm(f.algorithm);
  if (*f.ranks < 1 || *f.ranks > 1024)
    throw ConfigError(fmt::format("--ranks must be 1 to 1024, not {}", *f.ranks));
  if (f.iterations < 0)
    throw ConfigError(fmt::format("--iterations must be at least 1, not {}", f.iterations));
  if (!(f.timeout_s > 0 && f.timeout_s <= 86400)) {
    throw ConfigError(fmt::format("--timeout must be between 0 and 86400 seconds, not {}", f.timeout_s));
  }
  if (f.transport != "inproc" && f.transport != "shm" && f.transport != "tcp" && f.transport != "mpi") {
    throw ConfigError(fmt::format("--transport must be inproc, shm, tcp or mpi, not {}", f.transport));
  }
  require_transport(f.transport);
  if (f.transport == "mpi" && f.wire != "plain")
    throw ConfigError(fmt::format("--wire {} is for tcp: --transport mpi leaves messages to MPI", f.wire));
  for (const auto bytes : spec.sizes) {
    if (bytes % sizeof(float) != 0 || bytes > kLargest) {
      throw ConfigError(
          fmt::format("--sizes: {} is not a multiple of 4 up to {}", bytes, human_bytes(kLargest)));
    }
  }
  return spec;
}

Clock::duration timeout_of(const BenchFlags& f) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(f.timeout_s));
}

nlohmann::json run_threads(const BenchFlags& f, const lab::BenchSpec& spec) {
  nlohmann::json rows;
  net::run_as_threads(net::Medium::memory, *f.ranks, timeout_of(f), [&](net::Transport& t) {
    const auto all = lab::make_engine(spec, t, {.timeout = timeout_of(f)});
    auto mine = lab::bench_allreduce(*all, spec);
    if (t.rank() == Rank{0}) rows = std::move(mine);
  });
  return rows;
}

// Runs the job; its rows, or the exit code that it ended with.
struct BenchResult {
  nlohmann::json rows;
  int exit_code = 0;
};

// In the meeting, if there is one, every process calls it, and rank 0's has the rows.
BenchResult run_processes(launch::JobSpec job, const BenchFlags& f,
                          const std::optional<config::Emulation>& emulation,
                          rendezvous::Meeting* meeting = nullptr) {
  BenchResult result{nlohmann::json::array()};
  job.program = this_program();
  job.transport = f.transport;
  job.wire = f.wire;
  const auto settings = config::join_settings();
  job.interface = settings.interface;
  job.ports = parse_port_range(settings.port_range);
  job.timeout = timeout_of(f);
  const launch::Listener listener{
      [](Rank r, bool, const std::string& line) { fmt::print(stderr, "[{}] {}\n", to_int(r), line); },
      [&](Rank, const nlohmann::json& line) {
        for (const auto& row : line.at("rows")) result.rows.push_back(row);
      }};
  const bool first = meeting == nullptr || meeting->rank() == Rank{0};
  const auto outcome = meeting != nullptr ? run_in_meeting(*meeting, first ? &job : nullptr, listener)
                       : emulation        ? lab::bench_emulated(*emulation, job, listener, result.rows)
                                          : launch::run(job, listener);
  result.exit_code = outcome.exit_code;
  if (first && outcome.exit_code != 0) fmt::print(stderr, "tutti: {}\n", outcome.line);
  return result;
}

BenchResult run_allreduce(const BenchFlags& f, const lab::BenchSpec& spec,
                          const std::optional<config::Emulation>& emulation, rendezvous::Meeting* meeting) {
  if (f.transport == "inproc") return {run_threads(f, spec)};
  launch::JobSpec job;
  job.workers = *f.ranks;
  job.task = lab::kBenchTask;
  job.payload = spec;
  return run_processes(std::move(job), f, emulation, meeting);
}

void print_emulated(const nlohmann::json& rows) {
  for (const auto& r : rows) {
    if (!r.contains("emulated")) return;
    fmt::print("emulated hosts={},link={}: a stream gets {:.4f} GB/s", r["emulated"]["hosts"].get<int>(),
               r["emulated"]["link"].get<std::string>(), r.value("link_bytes_per_second", 0.0) / 1e9);
    if (r.contains("bound_seconds")) {
      fmt::print("; {} of {} B at {:.1f} % of what the links allow", r["algorithm"].get<std::string>(),
                 r["bytes"].get<std::uint64_t>(),
                 100 * r["bound_seconds"].get<double>() / r["seconds"].get<double>());
    }
    fmt::print("\n");
  }
}

// What others have started are the ranks.
void fit(BenchFlags& f, rendezvous::Meeting& meeting) {
  if (!f.emulate.empty() || f.transport == "inproc")
    throw ConfigError(
        "--emulate and --transport inproc make ranks, and these were started by another launcher");
  if (!f.ranks) f.ranks = meeting.world();
  if (f.transport == "auto" && std::ranges::max(launch::hosts_of(meeting)) > 0) f.transport = "tcp";
}

int bench(BenchFlags f, rendezvous::Meeting* meeting) {
  if (meeting != nullptr) fit(f, *meeting);
  const auto emulation = resolve(f);
  auto rows = nlohmann::json::array();
  for (const auto& spec : per_engine(f, check(f))) {
    const auto [some, exit_code] = run_allreduce(f, spec, emulation, meeting);
    if (exit_code != 0) return exit_code;
    rows.insert(rows.end(), some.begin(), some.end());
  }
  if (meeting != nullptr && meeting->rank() != Rank{0}) return 0;
  if (f.json) {
    fmt::print("{}\n", rows.dump(2));
    return 0;
  }
  fmt::print("{:>10} {:>6} {:>9} {:<8} {:<17} {:>12} {:>10} {:>10}\n", "bytes", "ranks", "transport",
             "engine", "algorithm", "time us", "GB/s", "iterations");
  for (const auto& r : rows) {
    fmt::print("{:>10} {:>6} {:>9} {:<8} {:<17} {:>12.2f} {:>10.3f} {:>10}\n",
               r["bytes"].get<std::uint64_t>(), r["ranks"].get<int>(), r["transport"].get<std::string>(),
               r["engine"].get<std::string>(), r["algorithm"].get<std::string>(),
               r["seconds"].get<double>() * 1e6, r["bytes_per_second"].get<double>() / 1e9,
               r["iterations"].get<int>());
  }
  print_emulated(rows);
  if (f.transport == "tcp") fmt::print("wire: {}\n", f.wire);
  if (f.engines.size() == 1)
    fmt::print("{}: {}\n", "auto chose as it did because", rows.back()["reason"].get<std::string>());
  return 0;
}

int bench_ps(BenchFlags f, lab::BenchPsSpec spec) {
  require_own_launcher("bench ps");
  const auto emulation = resolve(f);
  check(f);
  if (f.workers) spec.workers = *f.workers;
  if (!f.workers && emulation) spec.workers = std::max(1, emulation->hosts - spec.servers);
  if (f.transport != "shm" && f.transport != "tcp")
    throw ConfigError(fmt::format("--transport must be shm or tcp, not {}", f.transport));
  if (spec.workers < 1 || spec.workers > 512)
    throw ConfigError(fmt::format("--workers must be 1 to 512, not {}", spec.workers));
  if (spec.servers < 1 || spec.servers > 512)
    throw ConfigError(fmt::format("--servers must be 1 to 512, not {}", spec.servers));
  spec.sizes = parse_bytes_list(f.sizes);
  if (spec.table_rows > 0 && (spec.table_width < 1 || spec.table_rows > kLargest / spec.table_width)) {
    throw ConfigError(fmt::format("--table-rows {} of --table-width {}: between 1 and {} numbers",
                                  spec.table_rows, spec.table_width, kLargest));
  }
  if (!(spec.touch > 0 && spec.touch <= 1))
    throw ConfigError(fmt::format("--touch must be above 0 and at most 1, not {}", spec.touch));
  if (spec.partitions < 1)
    throw ConfigError(fmt::format("--partitions must be at least 1, not {}", spec.partitions));
  spec.transport = f.transport;
  spec.wire = f.wire;
  spec.iterations = f.iterations;
  spec.timeout_ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout_of(f)).count();
  launch::JobSpec job;
  job.workers = spec.workers;
  job.servers = spec.servers;
  job.task = lab::kBenchPsTask;
  job.payload = spec;
  const auto [rows, exit_code] = run_processes(std::move(job), f, emulation);
  if (exit_code != 0) return exit_code;
  if (f.json) {
    fmt::print("{}\n", rows.dump(2));
    return 0;
  }
  fmt::print("{:>10} {:>7} {:>7} {:>9} {:<13} {:>12} {:>14} {:>12} {:>10}\n", "bytes", "workers", "servers",
             "transport", "what", "time us", "GB/s each way", "of a memcpy", "iterations");
  for (const auto& r : rows) {
    const double rate = r["bytes_per_second"];
    const double copy = r.value("memcpy_bytes_per_second", 0.0);
    fmt::print("{:>10} {:>7} {:>7} {:>9} {:<13} {:>12.2f} {:>14.3f} {:>12} {:>10}\n",
               r["bytes"].get<std::uint64_t>(), spec.workers, spec.servers, r["transport"].get<std::string>(),
               r["algorithm"].get<std::string>(), r["seconds"].get<double>() * 1e6, rate / 1e9,
               copy > 0 ? fmt::format("{:.2f}x", rate / copy) : "-", r["iterations"].get<int>());
    if (r.contains("touched_rows")) {
      fmt::print("           {} rows touched: a worker sent {} a step\n",
                 r["touched_rows"].get<std::uint64_t>(), human_bytes(r["bytes_sent"].get<std::uint64_t>()));
    }
  }
  print_emulated(rows);
  return 0;
}

struct RendezvousFlags {
  int ranks = 1000;
  int idle_connections = 0;
  bool json = false;
};

int bench_rendezvous(const RendezvousFlags& f) {
  const auto meeting = rendezvous::rehearse(f.ranks, f.idle_connections, std::chrono::seconds(60));
  const nlohmann::json row = {
      {"ranks", f.ranks}, {"idle_connections", f.idle_connections}, {"seconds", meeting.seconds}};
  if (f.json) {
    fmt::print("{}\n", nlohmann::json::array({row}).dump(2));
    return 0;
  }
  fmt::print("{:>6} {:>10} {:>9}\n{:>6} {:>10} {:>9.3f}\n", "ranks", "idle", "seconds", f.ranks,
             f.idle_connections, meeting.seconds);
  return 0;
}

void add_rendezvous(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand(
      "rendezvous", "How long ranks take to find each other, beside connections that say nothing");
  const auto f = std::make_shared<RendezvousFlags>();
  command->add_option("--ranks", f->ranks, "threads that call at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--idle-connections", f->idle_connections,
                   "connections that are made before them and say nothing")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  command->add_flag("--json", f->json, "rows as a JSON array");
  command->callback([f, &action] { action = [f] { return bench_rendezvous(*f); }; });
}

// What both benchmarks take.
void add_common(CLI::App& command, BenchFlags& f) {
  command
      .add_option("--transport", f.transport,
                  "auto (shm, or tcp with --emulate) | inproc | shm | tcp | mpi (under mpirun)")
      ->capture_default_str();
  command.add_option("--wire", f.wire, config::kWireHelp)->capture_default_str();
  command.add_option("--emulate", f.emulate, config::kEmulateHelp);
  command.add_option("--sizes", f.sizes, "bytes, e.g. 1K,64K,4M")->capture_default_str();
  command
      .add_option("--iterations", f.iterations,
                  "iterations of each size; 0: as many as fit into half a second")
      ->capture_default_str();
  command.add_option("--timeout", f.timeout_s, "seconds until a rank that does not answer ends it")
      ->capture_default_str();
  command.add_flag("--json", f.json, "rows as a JSON array");
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("bench", "Measure one piece alone, verified while it is timed");
  command->require_subcommand(1);
  auto* allreduce = command->add_subcommand("allreduce", "All-reduce of float32 over sizes");
  const auto f = std::make_shared<BenchFlags>();
  allreduce->add_option("--ranks", f->ranks,
                        "processes, or threads for inproc; default 2, or the hosts of --emulate");
  allreduce->add_option("--engine", f->engines, engines::engine_names() + "; several with commas between")
      ->delimiter(',')
      ->capture_default_str();
  std::string algorithms = "auto";
  for (const auto& a : collectives::algorithms()) algorithms += fmt::format(" | {}", a.name);
  allreduce->add_option("--algorithm", f->algorithm, algorithms)->capture_default_str();
  add_common(*allreduce, *f);
  allreduce->callback([f, &action] {
    action = [f] {
      const auto settings = config::join_settings();
      const auto placement = started_by_others(settings);
      if (!placement) return bench(*f, nullptr);
      const auto threads = f->transport == "mpi" ? mpi::Threads::at_once : mpi::Threads::one_at_a_time;
      return in_meeting(*placement, settings, threads,
                        [&](rendezvous::Meeting& meeting) { return bench(*f, &meeting); });
    };
  });

  auto* ps = command->add_subcommand("ps", "Push to and pull from parameter servers, over sizes");
  const auto spec = std::make_shared<lab::BenchPsSpec>();
  const auto common = std::make_shared<BenchFlags>();
  common->sizes = "1M,26M";
  ps->add_option("--workers", common->workers,
                 "processes that push and pull; default 1, or the hosts of --emulate that are no servers");
  ps->add_option("--servers", spec->servers, "processes that hold the parameters")->capture_default_str();
  ps->add_option("--piece-bytes", spec->piece_bytes,
                 "a model is cut into pieces of this size; 0: what suits the transport")
      ->capture_default_str();
  ps->add_option("--table-rows", spec->table_rows, "also an embedding table of so many rows")
      ->capture_default_str();
  ps->add_option("--table-width", spec->table_width, "numbers a row")->capture_default_str();
  ps->add_option("--touch", spec->touch, "part of the table's rows that a step touches")
      ->capture_default_str();
  ps->add_option("--partitions", spec->partitions, "of the table")->capture_default_str();
  add_common(*ps, *common);
  ps->callback([spec, common, &action] { action = [spec, common] { return bench_ps(*common, *spec); }; });

  add_rendezvous(*command, action);
}

}  // namespace tutti::cli
