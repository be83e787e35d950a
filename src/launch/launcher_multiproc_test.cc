#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <thread>

#include "base/error.h"
#include "launch/hosts.h"
#include "launch/launcher.h"
#include "observe/event.h"

namespace tutti::launch {
namespace {

struct Seen {
  std::map<int, std::string> out;
  std::map<int, std::string> error;
  std::vector<pid_t> pids;
  std::vector<std::pair<int, std::string>> notes;  // by whom they are told
};

Listener listen_to(Seen& seen, const std::function<void(pid_t)>& on_pid = {}) {
  return {[&seen](Rank r, bool is_error, const std::string& line) {
            (is_error ? seen.error : seen.out)[to_int(r)] += line + "|";
          },
          [&seen, on_pid](Rank r, const nlohmann::json& line) {
            const auto note = std::get<observe::Note>(observe::from_json(line));
            if (!note.text.starts_with("pid ")) return void(seen.notes.emplace_back(to_int(r), note.text));
            seen.pids.push_back(std::stoi(note.text.substr(4)));
            if (on_pid) on_pid(seen.pids.back());
          }};
}

JobSpec job(const std::string& transport, int workers, nlohmann::json payload,
            Clock::duration timeout = std::chrono::seconds(60)) {
  JobSpec spec;
  const char* other = std::getenv("TEST_WORKER");  // script/mutate has made it
  spec.program = other != nullptr ? other : TUTTI_TEST_WORKER;
  spec.workers = workers;
  spec.task = "test";
  spec.payload = std::move(payload);
  spec.transport = transport;
  spec.timeout = timeout;
  return spec;
}

// Two agents on this host, which is as good as two hosts: their ranks share no memory and no board.
constexpr auto kHosts = "hosts";

Outcome start(JobSpec spec, const Listener& listener) {
  if (spec.transport != kHosts) return run(spec, listener);
  spec.transport = "tcp";
  std::vector<HostPart> parts = {{"localhost", {}}, {"localhost", {}}};
  for (int r = 0; r < processes_of(spec); ++r) parts[r % 2 == 0 ? 0 : 1].ranks.push_back(Rank{r});
  std::erase_if(parts, [](const HostPart& part) { return part.ranks.empty(); });
  return run_on_hosts(spec, parts, {}, listener);
}

void expect_all_gone(const Seen& seen) {
  for (const pid_t pid : seen.pids) EXPECT_NE(::kill(pid, 0), 0) << pid;
}

class Launcher : public ::testing::TestWithParam<const char*> {};
// Who is left is settled on one host: of several none does without a worker.
class LauncherOnOneHost : public ::testing::TestWithParam<const char*> {};

TEST_P(Launcher, RunsAllRanksAndTellsTheirOutputApart) {
  Seen seen;
  const Outcome o = start(job(GetParam(), 3, {{"mode", "fine"}}), listen_to(seen));
  EXPECT_EQ(o.exit_code, 0) << o.line;
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(seen.out[r], "hello|");
    EXPECT_EQ(seen.error[r], "no newline at the end|");
  }
  EXPECT_EQ(seen.pids.size(), 3U);
  expect_all_gone(seen);
}

TEST(LauncherOverTcp, ProtectsConnectionsAsAsked) {
  for (const char* wire : {"auto", "plain", "auth", "encrypt"}) {
    Seen seen;
    JobSpec spec = job("tcp", 2, {{"mode", "fine"}});
    spec.wire = wire;
    const Outcome o = run(spec, listen_to(seen));
    EXPECT_EQ(o.exit_code, 0) << wire << ": " << o.line;
  }
}

TEST(LauncherOverTcp, StartsNothingThatWouldBePlainBetweenHosts) {
  Seen seen;
  JobSpec spec = job("tcp", 2, {{"mode", "fine"}});
  spec.places = {{-1, "127.0.0.1"}, {-1, "192.0.2.1"}};
  spec.wire = "plain";
  EXPECT_THROW(run(spec, listen_to(seen)), ConfigError);
  EXPECT_TRUE(seen.pids.empty());
}

TEST_P(Launcher, FirstFailingRanksCodeIsTheJobs) {
  Seen seen;
  const Outcome o = start(job(GetParam(), 3, {{"mode", "exit"}, {"rank", 1}, {"code", 7}}), listen_to(seen));
  EXPECT_EQ(o.exit_code, 7);
  EXPECT_NE(o.line.find("rank 1 ended with exit code 7"), std::string::npos) << o.line;
  expect_all_gone(seen);
}

TEST_P(Launcher, ReasonOfAFailingRankIsTheJobsReason) {
  Seen seen;
  const Outcome o = start(job(GetParam(), 2, {{"mode", "throw"}, {"rank", 0}}), listen_to(seen));
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_EQ(o.line, "rank 0 failed: labels.idx: offset 8: label 12 is not below 10");
  expect_all_gone(seen);
}

TEST_P(Launcher, ReasonCountsEvenIfTheRankNeverGetsToExit) {
  Seen seen;
  const Outcome o = start(job(GetParam(), 2, {{"mode", "throw and linger"}, {"rank", 0}}), listen_to(seen));
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_EQ(o.line, "rank 0 failed: labels.idx: offset 8: label 12 is not below 10");
  expect_all_gone(seen);
}

TEST_P(Launcher, EveryJobHasASecretOfItsOwnThatAllItsRanksKnow) {
  std::array<Seen, 2> jobs;
  for (Seen& seen : jobs) {
    const Outcome o = start(job(GetParam(), 2, {{"mode", "secret"}}), listen_to(seen));
    ASSERT_EQ(o.exit_code, 0) << o.line;
    EXPECT_EQ(seen.out[0], seen.out[1]);
    EXPECT_GT(seen.out[0].size(), 64U);
  }
  EXPECT_NE(jobs[0].out[0], jobs[1].out[0]);
}

TEST_P(Launcher, KilledRankEndsTheJobAndIsNamedWithTheOperation) {
  Seen seen;
  const Outcome o = start(job(GetParam(), 3, {{"mode", "kill"}, {"rank", 2}}), listen_to(seen));
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.line.find("rank 2 was killed by SIGKILL"), std::string::npos) << o.line;
  EXPECT_NE(o.line.find("all-reduce of bucket 0"), std::string::npos) << o.line;
  expect_all_gone(seen);
}

TEST_P(LauncherOnOneHost, KilledWorkerIsDroppedWhereTheOthersCanDoWithoutIt) {
  Seen seen;
  auto spec = job(GetParam(), 3, {{"mode", "kill"}, {"rank", 2}, {"others", "go on"}});
  spec.survives_workers = true;
  const Outcome o = start(spec, listen_to(seen));
  EXPECT_EQ(o.exit_code, 0) << o.line;
  EXPECT_EQ(o.line, "");
  EXPECT_EQ(o.dropped, std::vector{Rank{2}});
  ASSERT_EQ(seen.notes.size(), 1U);
  EXPECT_EQ(seen.notes[0].first, 0) << "an event of the job is told with those of its first rank";
  EXPECT_TRUE(seen.notes[0].second.starts_with("rank 2 was killed by SIGKILL")) << seen.notes[0].second;
  expect_all_gone(seen);
}

// As always; only where it is known who stood still nobody needs so long to say that he waited for it.
TEST_P(LauncherOnOneHost, AfterOneWasDroppedTheOthersHaveTimeForLastWords) {
  Seen seen;
  auto spec = job(GetParam(), 3,
                  {{"mode", "stop"}, {"rank", 1}, {"others", "go on"}, {"fails", 0}, {"ends_after_ms", 900}},
                  std::chrono::hours(1));
  spec.survives_workers = true;
  const Outcome o = start(spec, listen_to(seen));
  EXPECT_EQ(o.exit_code, 7) << o.line;
  EXPECT_EQ(o.dropped, std::vector{Rank{1}});
  EXPECT_EQ(seen.out[2], "hello|goes on|");
}

TEST_P(Launcher, NobodyCanDoWithoutAServer) {
  Seen seen;
  auto spec = job(GetParam(), 2, {{"mode", "kill"}, {"rank", 2}});
  spec.servers = 1;
  spec.survives_workers = true;
  const Outcome o = start(spec, listen_to(seen));
  EXPECT_EQ(o.exit_code, 1) << o.line;
  EXPECT_TRUE(o.line.starts_with("rank 2 (a server) was killed by SIGKILL")) << o.line;
  EXPECT_TRUE(o.dropped.empty());
  expect_all_gone(seen);
}

TEST_P(Launcher, ServersAreRanksOfTheJobToo) {
  Seen seen;
  auto spec = job(GetParam(), 2, {{"mode", "fine"}});
  spec.servers = 1;
  const Outcome o = start(spec, listen_to(seen));
  EXPECT_EQ(o.exit_code, 0) << o.line;
  EXPECT_EQ(seen.pids.size(), 3U);
  expect_all_gone(seen);
}

// As with a slow file system: until it shows life a process has as long as processes take to begin.
TEST_P(Launcher, ProcessThatBeginsLateIsNotTakenForDead) {
  Seen seen;
  const Outcome o = start(
      job(GetParam(), 2, {{"mode", "fine"}, {"rank", 1}, {"late_ms", 1500}}, std::chrono::milliseconds(500)),
      listen_to(seen));
  EXPECT_EQ(o.exit_code, 0) << o.line;
}

// Long before any deadline for work, which is longer than this test may take.
TEST_P(Launcher, StoppedRankIsLostAndNamedWithWhatItWasDoing) {
  Seen seen;
  const Outcome o =
      start(job(GetParam(), 3, {{"mode", "stop"}, {"rank", 1}}, std::chrono::hours(1)), listen_to(seen));
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.line.find("rank 1 showed no life for 2."), std::string::npos) << o.line;
  EXPECT_NE(o.line.find(" s (its process is stopped); it was computing step 17; rank "), std::string::npos)
      << o.line;
  expect_all_gone(seen);
}

TEST_P(Launcher, RankThatIsBusyForLongerThanTheDeadlineIsNotBlamed) {
  Seen seen;
  const Outcome o = start(
      job(GetParam(), 3, {{"mode", "busy"}, {"rank", 1}, {"batches", 15}}, std::chrono::milliseconds(500)),
      listen_to(seen));
  EXPECT_EQ(o.exit_code, 0) << o.line;
}

TEST_P(Launcher, RankThatLivesButDoesNotGetOnIsNamedWithItsWords) {
  Seen seen;
  const Outcome o =
      start(job(GetParam(), 3, {{"mode", "hang"}, {"rank", 2}}, std::chrono::seconds(1)), listen_to(seen));
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.line.find("rank 2 made no progress for 1."), std::string::npos) << o.line;
  EXPECT_NE(o.line.find(" s; it says: evaluating, batch 3 of 20; rank "), std::string::npos) << o.line;
  expect_all_gone(seen);
}

// Where nobody watches heartbeats the ranks that wait give up by themselves, when it is time.
TEST_P(Launcher, RanksThatWaitInVainGiveUpAfterTheTimeOut) {
  Seen seen;
  auto spec = job(GetParam(), 3, {{"mode", "hang"}, {"rank", 2}}, std::chrono::seconds(1));
  spec.shows_life = false;
  const auto begin = Clock::now();
  const Outcome o = start(spec, listen_to(seen));
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(7)) << o.line;
  expect_all_gone(seen);
}

// What happens at a signal while one of these lives; a job in the background may ignore some from the start.
class Disposition {
 public:
  Disposition(int signal, sighandler_t handler) : signal_(signal), before_(::signal(signal, handler)) {}
  ~Disposition() { ::signal(signal_, before_); }
  Disposition(const Disposition&) = delete;
  Disposition& operator=(const Disposition&) = delete;

 private:
  const int signal_;
  const sighandler_t before_;
};

TEST_P(Launcher, InterruptStopsEveryone) {
  const Disposition usual(SIGINT, SIG_DFL);
  Seen seen;
  const Outcome o = start(job(GetParam(), 3, {{"mode", "forever"}}), listen_to(seen, [&](pid_t) {
                            if (seen.pids.size() == 3) ::kill(::getpid(), SIGINT);
                          }));
  EXPECT_EQ(o.exit_code, 130);
  EXPECT_EQ(o.interrupted_by, SIGINT);
  EXPECT_EQ(o.line, "interrupted by SIGINT; all 3 processes are stopped");
  expect_all_gone(seen);
}

TEST_P(Launcher, SignalThatIsIgnoredFromTheStartStaysIgnored) {
  const Disposition in_the_background(SIGINT, SIG_IGN);
  const Disposition usual(SIGTERM, SIG_DFL);
  Seen seen;
  const Outcome o =
      start(job(GetParam(), 2, {{"mode", "forever"}}),
            listen_to(seen, [&](pid_t) { ::kill(::getpid(), seen.pids.size() == 1 ? SIGINT : SIGTERM); }));
  EXPECT_EQ(o.interrupted_by, SIGTERM);
  expect_all_gone(seen);
}

TEST_P(Launcher, StoppedRankThatNobodyWaitsForIsNamedToo) {
  Seen seen;
  const Outcome o =
      start(job(GetParam(), 3, {{"mode", "stop"}, {"rank", 1}, {"others", "leave"}}, std::chrono::hours(1)),
            listen_to(seen));
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.line.find("rank 1 showed no life for 2."), std::string::npos) << o.line;
  expect_all_gone(seen);
}

TEST_P(Launcher, OnlyRankThatIsStoppedEndsTheJobToo) {
  Seen seen;
  const Outcome o =
      start(job(GetParam(), 1, {{"mode", "stop"}, {"rank", 0}}, std::chrono::hours(1)), listen_to(seen));
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.line.find("rank 0 showed no life for 2."), std::string::npos) << o.line;
  expect_all_gone(seen);
}

// The children of workers that have ended come to us, so that we can tell how each of them ended.
TEST_P(Launcher, WhatAWorkerStartedEndsWithItAndHoldsUpNobody) {
  const Disposition usual(SIGTERM, SIG_DFL);
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  for (const auto& payload : {nlohmann::json{{"mode", "child"}},                      // the worker ends well,
                              nlohmann::json{{"mode", "child"}, {"code", 7}},         // or badly,
                              nlohmann::json{{"mode", "child"}, {"stays", true}}}) {  // or is stopped
    const bool stays = payload.value("stays", false);
    Seen seen;
    const Outcome o = start(job(GetParam(), 2, payload), listen_to(seen, [&](pid_t) {
                              if (stays && seen.pids.size() == 4) ::kill(::getpid(), SIGTERM);
                            }));
    EXPECT_EQ(o.exit_code, stays ? 128 + SIGTERM : payload.value("code", 0)) << o.line;
    ASSERT_EQ(seen.pids.size(), 4U);  // each worker, and its child
    int killed = 0;
    for (const pid_t pid : seen.pids) {
      int status = 0;
      if (::waitpid(pid, &status, 0) != pid) continue;  // a worker, which the launcher has waited for
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
      ++killed;
    }
    EXPECT_EQ(killed, 2);
  }
}

TEST_P(Launcher, OutputThatSomebodyElseHoldsOpenIsNotWaitedForWithoutEnd) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  Seen seen;
  EXPECT_EQ(start(job(GetParam(), 1, {{"mode", "child apart"}}), listen_to(seen)).exit_code, 0);
  EXPECT_EQ(seen.out[0], "hello|");
  ASSERT_EQ(seen.pids.size(), 2U);
  EXPECT_EQ(::kill(seen.pids[1], SIGKILL), 0);
  EXPECT_EQ(::waitpid(seen.pids[1], nullptr, 0), seen.pids[1]);
}

INSTANTIATE_TEST_SUITE_P(Transports, Launcher, ::testing::Values("shm", "tcp", kHosts),
                         [](const auto& p) { return std::string(p.param); });
INSTANTIATE_TEST_SUITE_P(Transports, LauncherOnOneHost, ::testing::Values("shm", "tcp"),
                         [](const auto& p) { return std::string(p.param); });

TEST(LauncherOnce, WhoGuessesTheSecretIsCounted) {
  Seen seen;
  const Outcome o = run(job("tcp", 2, {{"mode", "guess"}, {"rank", 1}}), listen_to(seen));
  EXPECT_EQ(o.exit_code, 0) << o.line;
  EXPECT_EQ(o.rejected_connections, 1U);
}

TEST(LauncherOnce, ServerInAProcessOfItsOwnIsBlamedByItsOwnRank) {
  Seen seen;
  auto spec = job("shm", 2, {{"mode", "blame"}, {"rank", 0}, {"peer", 2}, {"others", "leave"}});
  spec.servers = 1;
  const Outcome o = run(spec, listen_to(seen));
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_EQ(o.line, "rank 2 (a server) did not answer for 1.5 s: rank 0 waited for it in push");
}

TEST(LauncherOnce, ProgramOfOthersIsToldItsPlaceInTheJobAndOnItsHost) {
  for (const bool hosts_of_their_own : {false, true}) {
    Seen seen;
    auto spec = job("tcp", 2, {});
    spec.command = {"/bin/sh", "-c", "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE"};
    if (hosts_of_their_own) spec.places = {{.host = 0}, {.host = 1}};
    const Outcome o = run(spec, listen_to(seen));
    EXPECT_EQ(o.exit_code, 0) << o.line;
    EXPECT_EQ(seen.out[0], hosts_of_their_own ? "0 2 0 1|" : "0 2 0 2|");
    EXPECT_EQ(seen.out[1], hosts_of_their_own ? "1 2 0 1|" : "1 2 1 2|");
  }
}

// Three workers and a server on two hosts: who shares one is told its place there, and shares memory there.
TEST(LauncherOnce, WorkersOfAHostAreRankedAndShareMemory) {
  Seen seen;
  auto spec = job("tcp", 3, {});
  spec.places = {{.host = 7}, {.host = 3}, {.host = 7}};
  spec.command = {"/bin/sh", "-c", "echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE"};
  EXPECT_EQ(run(spec, listen_to(seen)).exit_code, 0);
  EXPECT_EQ(seen.out[0], "0 0 2|");
  EXPECT_EQ(seen.out[1], "1 0 1|");
  EXPECT_EQ(seen.out[2], "2 1 2|");

  Seen neighbours;
  spec = job("tcp", 3, {{"mode", "neighbours"}});
  spec.servers = 1;
  spec.places = {{.host = 7}, {.host = 3}, {.host = 7}, {.host = 3}};
  const Outcome o = run(spec, listen_to(neighbours));
  EXPECT_EQ(o.exit_code, 0) << o.line;
  EXPECT_EQ(neighbours.out[0], "hello|0 of 2|");
  EXPECT_EQ(neighbours.out[1], "hello|alone|");
  EXPECT_EQ(neighbours.out[2], "hello|1 of 2|");
  EXPECT_EQ(neighbours.out[3], "hello|alone|") << "a server";
}

TEST(LauncherOnce, SecretIsInNeitherArgumentsNorEnvironment) {
  Seen seen;
  std::string environment;
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment += std::string(*variable) + '\0';
  EXPECT_EQ(
      run(job("tcp", 1, {{"mode", "environment"}, {"environment", environment}}), listen_to(seen)).exit_code,
      0);
}

TEST(LauncherOnce, ProgramThatDoesNotExistIsSaid) {
  Seen seen;
  JobSpec spec = job("shm", 2, {{"mode", "fine"}});
  spec.program = "/no/such/program";
  const Outcome o = run(spec, listen_to(seen));
  EXPECT_EQ(o.exit_code, 127) << "what shells say of a program that they do not find";
  EXPECT_NE(o.line.find("exit code 127"), std::string::npos) << o.line;
}

TEST(LauncherOnce, DeathOfTheLauncherLeavesNoWorker) {
  // Orphans come to us, not to whatever is process 1 here, which may never ask after them.
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int pids[2];
  ASSERT_EQ(::pipe(pids), 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    Seen seen;
    run(job("shm", 2, {{"mode", "forever"}}),
        listen_to(seen, [&](pid_t pid) { (void)!::write(pids[1], &pid, sizeof pid); }));
    ::_exit(0);
  }
  pid_t workers[2];
  for (pid_t& w : workers) ASSERT_EQ(::read(pids[0], &w, sizeof w), static_cast<ssize_t>(sizeof w));
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  // They end without anyone's help. Bounded by the test's own time limit.
  for (const pid_t w : workers) EXPECT_EQ(::waitpid(w, nullptr, 0), w);
}

}  // namespace
}  // namespace tutti::launch
