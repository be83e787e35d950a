#include "lab/run.h"

#include <ATen/Context.h>

#include "config/environment.h"
#include "config/hosts.h"
#include "emulate/cluster.h"
#include "launch/hosts.h"
#include "observe/jsonl_sink.h"
#include "observe/summary.h"
#include "train/plan.h"
#include "train/resume.h"
#include "train/run_folder.h"

namespace tutti::lab {

namespace {

namespace fs = std::filesystem;

launch::JobSpec spec_of(const train::Prepared& run, const std::string& program) {
  const auto& config = run.setup.config;
  launch::JobSpec spec;
  spec.program = program;
  spec.workers = config.workers;
  spec.task = kTrainTask;
  if (run.kernels) {
    spec.environment = config::only_kernels(*run.kernels);
  } else if (config.reproducible) {
    spec.environment = config::reproducible_kernels(at::hasMKL(), config.threads);
  }
  spec.payload = run.setup;
  spec.transport = config.transport;
  spec.wire = config.wire;
  spec.interface = config.interface;
  spec.ports = parse_port_range(config.port_range);
  spec.busy_threads = config.threads + 1;  // backward computes while the exchange waits
  spec.timeout = train::timeout_of(config);
  spec.heartbeat_timeout = train::heartbeat_timeout_of(config);
  spec.shows_life = config.heartbeat_timeout_s > 0;
  spec.servers = config.servers;
  spec.colocate = config.colocate;
  spec.local_memory = config.local_aggregation;
  spec.saves_when_asked = true;
  spec.survives_workers = train::survives_workers(config);
  for (const UniqueFd& fd : run.keep_open) spec.inherit.push_back(fd.get());
  if (run.lock) spec.inherit.push_back(run.lock.fd());  // the folder is taken until the last of them is gone
  return spec;
}

launch::Outcome run_on_hosts(launch::JobSpec spec, const config::TrainConfig& config,
                             const launch::Listener& listener) {
  spec.inherit.clear();  // those are descriptors of this host's; agents open the data again
  std::vector<std::string> roots;
  for (const auto& root : config::data_roots()) roots.push_back(fs::absolute(root).string());
  spec.payload[kDataRoots] = roots;
  const launch::HostOptions options{
      .ssh = config::find_program("ssh"),
      .ssh_config = config.ssh_config,
      .program = config.remote_program.empty() ? spec.program : config.remote_program};
  // Every rank reads the checkpoint that the run goes on from.
  if (config.restarts > 0 || config.resume == train::kAuto) spec.shared_folders.push_back(config.out);
  if (!config.resume.empty() && config.resume != train::kAuto) {
    const auto run = train::run_folder_of(config.resume);
    spec.shared_folders.push_back(run.empty() ? config.resume : run.string());
  }
  const int own_servers = config.colocate ? 0 : config.servers;
  return launch::run_on_hosts(spec, parts_of(config::parse_hosts(config.hosts), config.workers, own_servers),
                              options, listener);
}

// Between two tries of a run: takes its folder back to where the next one begins, and says where that is.
std::string rewind(train::Setup& setup, train::Setup next, const launch::Outcome& failed,
                   const std::function<void(const std::string&)>& say) {
  for (const auto& note : train::go_on_from_newest(next)) say(note);
  next.restarts = setup.restarts;
  next.restarts.push_back({failed.line, next.first_step});
  setup = std::move(next);
  for (const auto& note : train::rewind_run_folder(setup)) say(note);
  return setup.first_step == 0 ? "the beginning" : fmt::format("step {}", setup.first_step);
}

}  // namespace

std::vector<launch::HostPart> parts_of(const std::vector<config::Host>& hosts, int workers, int servers) {
  std::vector<launch::HostPart> parts;
  int rank = 0;
  for (const auto& host : hosts) {
    launch::HostPart part{host.name, {}};
    for (int i = 0; i < host.slots && rank < workers; ++i) part.ranks.push_back(Rank{rank++});
    if (!part.ranks.empty()) parts.push_back(std::move(part));
  }
  for (int s = 0; s < servers; ++s) {
    parts[static_cast<std::size_t>(s) % parts.size()].ranks.push_back(Rank{workers + s});
  }
  return parts;
}

launch::Outcome run_training(train::Prepared& run, const std::string& program,
                             const launch::Listener& listener, const Pause& pause, const RunJob& run_job) {
  const fs::path out = run.setup.config.out;
  std::optional<emulate::Cluster> cluster;
  if (const auto emulation = config::parse_emulation(run.setup.config.emulate)) {
    cluster.emplace(*emulation, launch::processes_of(spec_of(run, program)));
  }
  if (!run.lock) run.lock = train::FolderLock::take(out);
  for (auto& note : train::make_run_folder(run.setup)) run.notes.push_back(std::move(note));
  const std::function<void(const std::string&)> say = [&](const std::string& line) {
    const observe::Note note{line};
    listener.on_report(Rank{0}, observe::to_json(note));
    try {
      observe::JsonlSink(out / "metrics.jsonl").emit(note);
    } catch (const RunError&) {  // a full disk costs the line, not the run
    }
  };
  for (const auto& note : run.notes) say(note);

  const train::Setup at_first = run.setup;
  std::optional<observe::Emulated> emulated;  // what the last try put on the links
  const auto run_once = [&] {
    const auto spec = spec_of(run, program);
    if (!run.setup.config.hosts.empty()) return run_on_hosts(spec, run.setup.config, listener);
    if (!cluster) return run_job(spec, listener);
    auto [ended, traffic] = cluster->run(spec, listener);
    emulated = std::move(traffic);
    return ended;
  };
  auto outcome = run_with_restarts(
      {.restarts = run.setup.config.restarts,
       .run = run_once,
       .rewind = [&](const auto& failed) { return rewind(run.setup, at_first, failed, say); },
       .say = say,
       .pause = pause});
  if (outcome.exit_code != 0) train::sweep_run_folder(out);
  // Told to stop in its last step, it has come to its end all the same.
  if (outcome.interrupted_by != 0 && fs::exists(out / observe::kSummaryFile)) outcome.exit_code = 0;
  if (outcome.exit_code == 0) observe::add_to_summary(out, emulated, outcome.rejected_connections);
  return outcome;
}

}  // namespace tutti::lab
