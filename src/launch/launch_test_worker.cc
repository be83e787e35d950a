// What the launcher's tests start: a worker that behaves, or misbehaves, as its payload says.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/version.h"
#include "launch/agent.h"
#include "launch/job.h"
#include "net/dial.h"
#include "net/heartbeat.h"
#include "observe/jsonl_sink.h"

using namespace tutti;

namespace {

void exchange_forever(net::Transport& t) {
  const int next = (to_int(t.rank()) + 1) % t.world();
  const int previous = (to_int(t.rank()) + t.world() - 1) % t.world();
  std::byte mine[64]{};
  std::byte theirs[64]{};
  const net::Outgoing out[] = {{Rank{next}, mine}};
  const net::Incoming in[] = {{Rank{previous}, theirs, sizeof theirs}};
  while (true) t.transfer(out, in, {"all-reduce", "bucket 0"});
}

// A process that outlives us if nobody ends it, and holds our output open; in our group, or in one of its
// own.
pid_t start_child(bool apart) {
  const pid_t child = ::fork();
  if (apart) ::setpgid(child, child);  // from both sides, so that it is so when either goes on
  if (child != 0) return child;
  ::execlp("sleep", "sleep", "1000", nullptr);
  ::_exit(127);
}

// Busy with something that takes no message, then tells everyone.
void evaluate(net::Transport& t, int batches) {
  for (int b = 1; b <= batches; ++b) {
    t.board().say(t.rank(), "evaluating, batch " + std::to_string(b));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  for (int r = 0; r < t.world(); ++r) {
    if (Rank{r} != t.rank()) net::send(t, Rank{r}, {}, {"barrier"});
  }
}

int wait_for(net::Transport& t, Rank busy) {
  net::receive(t, busy, {}, {"barrier"});
  return 0;
}

int work(const launch::WorkerJob& job, observe::JsonlSink& report) {
  const std::string mode = job.payload.at("mode");
  const bool chosen = to_int(job.rank) == job.payload.value("rank", -1);
  std::printf("hello\n");
  std::fprintf(stderr, "no newline at the end");
  report.emit(observe::Note{"pid " + std::to_string(::getpid())});
  if (mode == "environment") {
    // The secret must be in neither: say what a `ps e` would show.
    std::ifstream environment("/proc/self/environ");
    std::ifstream arguments("/proc/self/cmdline");
    const std::string all{std::istreambuf_iterator<char>(environment), {}};
    const std::string line{std::istreambuf_iterator<char>(arguments), {}};
    // Nothing but the number of a descriptor is in the arguments, and nothing was added to the environment.
    const std::string told = line.substr(line.find('\0') + 1);
    const bool only_the_number = told.starts_with(std::string("worker\0--job-fd\0", 16)) && told.size() < 24;
    const bool same_environment = all == job.payload.at("environment").get<std::string>();
    return only_the_number && same_environment ? 0 : 9;
  }
  if (mode == "secret") {
    std::string text;
    for (const std::byte b : job.secret) text += std::to_string(std::to_integer<int>(b)) + " ";
    std::printf("%s\n", text.c_str());
    return 0;
  }
  if (mode == "guess" && chosen) {
    try {
      net::dial(job.rendezvous, net::make_secret(), job.rank, net::kRendezvous,
                Deadline::in(std::chrono::seconds(30)));
      return 9;
    } catch (const AuthError&) {  // as it should be
    }
  }
  const auto transport = launch::connect(job, report);
  if (mode == "fine" || mode == "guess") return 0;
  if (mode == "neighbours") {
    const auto neighbours = launch::connect_neighbours(job);
    if (neighbours == nullptr) {
      std::printf("alone\n");
    } else {
      std::printf("%d of %d\n", to_int(neighbours->rank()), neighbours->world());
    }
    return 0;
  }
  if (mode.starts_with("child")) {
    report.emit(observe::Note{"pid " + std::to_string(start_child(mode.ends_with("apart")))});
    if (job.payload.value("stays", false)) exchange_forever(*transport);
    return job.payload.value("code", 0);
  }
  if (mode == "exit" && chosen) return job.payload.at("code");
  if (mode.starts_with("throw") && chosen) throw DataError("labels.idx: offset 8: label 12 is not below 10");
  if (mode == "blame" && chosen) {
    throw Timeout(
        {job.rank, Rank{job.payload.at("peer").get<int>()}, "push", std::chrono::milliseconds(1500)});
  }
  if (mode == "kill" && chosen) ::raise(SIGKILL);
  if (mode == "stop" && chosen) {
    transport->board().say(job.rank, "computing step 17");
    ::raise(SIGSTOP);
  }
  if (job.payload.value("others", "") == "leave") return 0;
  if (job.payload.value("others", "") == "go on") {
    while (net::dropped(transport->board()).empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (to_int(job.rank) == job.payload.value("fails", -1)) return 7;
    std::this_thread::sleep_for(std::chrono::milliseconds(job.payload.value("ends_after_ms", 0)));
    std::printf("goes on\n");
    return 0;
  }
  if (mode == "busy" && chosen) {
    evaluate(*transport, job.payload.at("batches"));
    return 0;
  }
  if (mode == "busy") return wait_for(*transport, Rank{job.payload.at("rank").get<int>()});
  if (mode == "hang" && chosen) {
    transport->board().say(job.rank, "evaluating, batch 3 of 20");
    while (true) ::pause();
  }
  exchange_forever(*transport);
  return 0;
}

}  // namespace

int main(int, char** argv) {
  if (std::string_view(argv[1]) == "agent") {
    ::signal(SIGPIPE, SIG_IGN);
    return launch::run_agent({kVersion, "", ""}, argv[0], {});
  }
  const auto job = launch::read_job(std::atoi(argv[3]));
  if (to_int(job.rank) == job.payload.value("rank", -1)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(job.payload.value("late_ms", 0)));
  }
  observe::JsonlSink report(UniqueFd(job.report_fd), "report");
  const auto board = launch::open_board(job);
  const net::Heartbeat heartbeat(board, job.rank);
  try {
    return work(job, report);
  } catch (const std::exception& e) {
    const auto failure = launch::failure_of(e);
    report.write_line(launch::to_json(failure));
    if (job.payload.at("mode") == "throw and linger" && failure.kind == launch::Failure::Kind::usage) {
      ::raise(SIGSTOP);
    }
    return launch::exit_code_of(failure);
  }
}
