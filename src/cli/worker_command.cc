#include <ATen/Parallel.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "base/process.h"
#include "cli/command.h"
#include "lab/bench_allreduce.h"
#include "lab/bench_links.h"
#include "lab/bench_ps.h"
#include "lab/run.h"
#include "launch/job.h"
#include "net/heartbeat.h"
#include "net/stall.h"
#include "observe/jsonl_sink.h"
#include "observe/resource_monitor.h"
#include "observe/tensorboard_sink.h"
#include "ps/server_thread.h"
#include "train/trainer.h"

namespace tutti::cli {
namespace {

// Sends every event to the files of the run, and to the launcher while that listens: one that is paused
// (Ctrl-Z) or whose own output is not read must not hold up a rank, and with it the job.
class Tee final : public observe::EventSink {
 public:
  // Files are opened by the first event: one rank writes them, rank 0 or, should it die, the next.
  Tee(const config::TrainConfig& config, observe::JsonlSink& report) : config_(config), report_(report) {}

  // A full disk costs the run these lines, and no more.
  void emit(const observe::Event& event) override {
    try {
      if (!metrics_) open_files();
      metrics_->emit(event);
      if (tensorboard_) tensorboard_->emit(event);
    } catch (const RunError& e) {
      if (!std::exchange(warned_, true)) show(observe::Note{fmt::format("{}; the run goes on", e.what())});
    }
    show(event);
  }

 private:
  void open_files() {
    const std::filesystem::path folder(config_.out);
    metrics_.emplace(folder / "metrics.jsonl");
    if (config_.tensorboard) tensorboard_.emplace(folder / "tensorboard");
  }
  void show(const observe::Event& event) {
    if (report_.has_room()) report_.emit(event);
  }

  const config::TrainConfig& config_;
  std::optional<observe::JsonlSink> metrics_;
  std::optional<observe::TensorboardSink> tensorboard_;
  observe::JsonlSink& report_;
  bool warned_ = false;
};

// At the rank of the server that lives in this worker's process.
void serve_colocated(launch::WorkerJob job, const train::Setup& setup, observe::JsonlSink& report) {
  job.rank = Rank{to_int(job.rank) + setup.config.workers};
  train::serve(setup, *launch::connect(job, report), job.hosts);
}

void train_as_worker(const launch::WorkerJob& job, const train::Setup& setup, observe::JsonlSink& report) {
  const auto transport = launch::connect(job, report);
  const auto neighbours = launch::connect_neighbours(job);
  Tee all(setup.config, report);
  train::train(setup, *transport, all, {job.hosts, neighbours.get()}, job.address);
}

// The launcher hears signals and passes them on. Some senders (a batch system, a terminal's group) signal
// every process of a job: a worker that died of that could not save.
void leave_signals_to_the_launcher() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) std::signal(signal, SIG_IGN);
}

void train(const launch::WorkerJob& job, const net::StatusBoard& board, observe::JsonlSink& report) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is a failed write, like a full disk
  const auto setup = job.payload.get<train::Setup>();
  const auto& config = setup.config;
  const bool serves = to_int(job.rank) >= config.workers;
  const observe::ResourceMonitor sampler(observe::samples_path(config.out, job.rank), job.rank,
                                         serves ? "server" : "worker");
  if (serves) return train::serve(setup, *launch::connect(job, report), job.hosts);
  at::set_num_interop_threads(1);
  std::optional<ps::ServerThread> server;
  if (config.colocate) server.emplace([&] { serve_colocated(job, setup, report); });
  const auto wait_for_server = [&] {
    const net::Waiting waiting(board, job.rank);
    if (server) server->wait();
  };
  try {
    train_as_worker(job, setup, report);
  } catch (const PeerLost&) {
    wait_for_server();  // it may know why
    throw;
  }
  wait_for_server();
}

void bench(const launch::WorkerJob& job, const net::StatusBoard&, observe::JsonlSink& report) {
  const auto spec = job.payload.get<lab::BenchSpec>();
  const auto transport = launch::connect(job, report);
  const auto neighbours = launch::connect_neighbours(job);
  const auto all = lab::make_engine(
      spec, *transport,
      {.timeout = job.timeout, .address = job.address, .hosts = {job.hosts, neighbours.get()}});
  const auto rows = lab::bench_allreduce(*all, spec);
  if (job.rank == Rank{0}) report.write_line({{"rows", rows}});
}

void bench_links(const launch::WorkerJob& job, const net::StatusBoard&, observe::JsonlSink& report) {
  try {
    lab::bench_links(*launch::connect(job, report), [&](const lab::Link& link) { report.write_line(link); });
  } catch (const Timeout& e) {
    // Both ends of a connection that does not come about time out; the one that called knows where.
    const auto& fault = e.fault;
    if (!fault.address.empty()) {
      report.write_line(
          {{lab::kUnreached, lab::Unreached{to_int(fault.rank), to_int(fault.peer), fault.address}}});
    }
    throw;
  }
}

void bench_ps(const launch::WorkerJob& job, const net::StatusBoard&, observe::JsonlSink& report) {
  const auto rows = lab::bench_ps(*launch::connect(job, report), job.payload.get<lab::BenchPsSpec>());
  if (!rows.is_null()) report.write_line({{"rows", rows}});
}

struct Task {
  const char* name;
  void (*run)(const launch::WorkerJob& job, const net::StatusBoard& board, observe::JsonlSink& report);
};

constexpr Task kTasks[] = {
    {lab::kTrainTask, train},
    {lab::kBenchTask, bench},
    {lab::kBenchLinksTask, bench_links},
    {lab::kBenchPsTask, bench_ps},
};

}  // namespace

int work(const launch::WorkerJob& job) {
  keep_freed_memory();
  observe::JsonlSink report(UniqueFd(job.report_fd), "the launcher's pipe");
  const net::StatusBoard board = launch::open_board(job);
  std::optional<net::Heartbeat> heartbeat;
  if (job.shows_life) heartbeat.emplace(board, job.rank);
  try {
    const auto* task = std::ranges::find(kTasks, job.task, &Task::name);
    if (task == std::end(kTasks)) throw ConfigError(fmt::format("unknown task '{}'", job.task));
    task->run(job, board, report);
    return 0;
  } catch (const std::exception& e) {
    const auto failure = launch::failure_of(e);
    report.write_line(launch::to_json(failure));
    return launch::exit_code_of(failure);
  }
}

void add_worker(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("worker", "What the launcher starts");
  command->group("");
  const auto fd = std::make_shared<int>(-1);
  command->add_option("--job-fd", *fd, "inherited descriptor of the job description")->required();
  command->callback([fd, &action] {
    action = [fd] {
      const auto job = launch::read_job(*fd);
      if (job.task == lab::kTrainTask) leave_signals_to_the_launcher();
      return work(job);
    };
  });
}

}  // namespace tutti::cli
