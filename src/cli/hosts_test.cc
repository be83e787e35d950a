// The program on several hosts (cli/hosts_fixture.h).
#include <fmt/ranges.h>

#include <fstream>
#include <regex>
#include <set>

#include "base/deadline.h"
#include "base/process.h"
#include "cli/hosts_fixture.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class TwoHosts : public Hosts {
 protected:
  void SetUp() override { make_hosts(2); }

  void expect_equal_replicas(std::size_t workers) const {
    const auto s = summary();
    EXPECT_EQ(s["replicas_sha256"].size(), workers);
    for (const auto& replica : s["replicas_sha256"]) EXPECT_EQ(replica, s["parameters_sha256"]);
  }
};

// That a host which cannot be used is named in this time is a promise, which the limits of ssh (6 s), of a
// hello (9 s) and of a silence (5 s) keep; so here time counts.
constexpr std::chrono::seconds kNamedWithin{10};

Ended named_in_time(const std::string& what, const std::function<Ended()>& ends) {
  const auto begin = Clock::now();
  Ended e = ends();
  const std::chrono::duration<double> took = Clock::now() - begin;
  fmt::print("{}: named after {:.1f} s\n", what, took.count());
  EXPECT_LT(took, kNamedWithin) << what;
  return e;
}

TEST_F(TwoHosts, TrainToEqualReplicas) {
  const Ended e = run_there(train_on("host0:2,host1:2", {"--strategy", "allreduce", "--steps", "12"}));
  ASSERT_EQ(e.code, 0) << e.error;
  const auto s = summary();
  EXPECT_EQ(s["workers"], 4) << "as many as the hosts have room for";
  EXPECT_EQ(s["config"]["wire"], "auth");
  EXPECT_EQ(s["replicas_sha256"].size(), 4U);
  for (const auto& replica : s["replicas_sha256"]) EXPECT_EQ(replica, s["parameters_sha256"]);
  expect_nothing_left();
}

// A worker on each, so that all that they exchange passes the link.
TEST_F(TwoHosts, EndWithEqualReplicasUnderEveryStrategyThatNeedsNoCommonMemory) {
  for (const char* strategy : {"ring", "allreduce", "reduce-broadcast", "ps-sync", "ps-async", "ps-ssp",
                               "hybrid", "easgd", "local-sgd"}) {
    const bool has_tables = strategy == std::string_view("hybrid");
    std::vector<std::string> flags = {"--strategy", strategy, "--steps", "8", "--no-evaluate"};
    if (has_tables) flags.insert(flags.end(), {"--model", "wide-deep", "--optimizer", "adam"});
    flags.insert(flags.end(), {"--hosts", "host0:1,host1:1", "--ssh-config", ssh_config()});
    const Ended e = run_there(train(flags, has_tables ? "synthetic" : "mnist"));
    ASSERT_EQ(e.code, 0) << strategy << e.error;
    expect_equal_replicas(2);
    expect_nothing_left();
  }
  const Ended hogwild = run_there(train_on("host0:1,host1:1", {"--strategy", "hogwild", "--steps", "8"}));
  EXPECT_EQ(hogwild.code, 2) << hogwild.error;
  EXPECT_NE(hogwild.error.find("hogwild: needs --transport shm"), std::string::npos) << hogwild.error;
  expect_nothing_left();
}

TEST_F(TwoHosts, ServersAreDealtToThem) {
  const Ended e = run_there(train_on(
      "host0:1,host1:1", {"--strategy", "ps-sync", "--servers", "2", "--steps", "8", "--workers", "2"}));
  ASSERT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(summary()["servers"], 2);
  for (const auto& replica : summary()["replicas_sha256"]) EXPECT_EQ(replica, summary()["parameters_sha256"]);
  expect_nothing_left();
}

TEST_F(TwoHosts, ThatCannotBeUsedAreNamed) {
  struct Case {
    std::string hosts;
    std::vector<std::string> more;
    int code;
    std::string said;
  };
  const auto other_version = root() / "other-version";
  std::ofstream(other_version)
      << "#!/bin/sh\necho '{\"agent\":{\"version\":\"0.0.1\",\"address\":\"\",\"caller\":\"\"}}'\n"
         "exec cat\n";
  fs::permissions(other_version, fs::perms::owner_all);
  const std::string unverified =
      "cannot be reached: ssh ended with exit code 255 (Host key verification failed.";
  const Case silent{"host0:1,asleep:1", {}, 1, "host asleep (rank 1) cannot be reached"};
  for (const Case& c :
       {silent, Case{"host0:1,stranger:1", {}, 1, "host stranger (rank 1) cannot be reached"},
        Case{"host0:1,unknown:1", {}, 1, "host unknown (rank 1) " + unverified},
        Case{"host0:1,changed:1", {}, 1, "host changed (rank 1) " + unverified},
        Case{"host0:1,nowhere.invalid:1", {}, 1, "host nowhere.invalid (rank 1) cannot"},
        Case{"host0:1,host1:1", {"--remote-program", "/no/such/tutti"}, 2, "has no program /no/such/tutti"},
        Case{"host0:1,host1:1", {"--remote-program", other_version.string()}, 2, "has tutti 0.0.1 at"},
        silent}) {
    auto more = c.more;
    more.insert(more.end(), {"--steps", "4", "--strategy", "allreduce"});
    const Ended e = named_in_time(c.said, [&] { return run_there(train_on(c.hosts, more)); });
    EXPECT_EQ(e.code, c.code) << c.hosts << ": " << e.error;
    EXPECT_NE(e.error.find(c.said), std::string::npos) << e.error;
    expect_nothing_left();
    // Now it drops what comes, where it has refused at first.
    if (c.more.size() == 2 && c.more[1] == other_version)
      change_network(2, "ip", "route add blackhole " + emulate::address_of(0));
  }
}

// Its agent and its workers are killed at once, so that nobody there says goodbye.
TEST_F(TwoHosts, OneThatDiesInTheMiddleIsNamedAndNothingIsLeft) {
  Running running(root(), train_on("host0:1,host1:2", {"--strategy", "allreduce", "--steps", "100000"}),
                  [&] { in_host(0); });
  wait_for_steps();
  for (const pid_t pid : processes_on(1)) ::kill(pid, SIGKILL);
  const Ended e = named_in_time("a host that dies", [&] { return running.wait(); });
  EXPECT_EQ(e.code, 1);
  EXPECT_NE(e.error.find("host host1 (ranks 1 to 2) was lost"), std::string::npos) << e.error;
  expect_nothing_left();
}

TEST_F(TwoHosts, InterruptSavesOnAllOfThemAtTheSameStep) {
  Running running(root(), train_on("host0:1,host1:1", {"--strategy", "allreduce", "--steps", "100000"}),
                  [&] { in_host(0); });
  wait_for_steps();
  ::kill(running.pid(), SIGINT);
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 128 + SIGINT) << e.error;
  // Hosts that ended after different steps would wait for each other until they are stopped.
  EXPECT_NE(e.error.find("all 2 processes have ended"), std::string::npos) << e.error;
  EXPECT_FALSE(fs::is_empty(out() / "checkpoints"));
  expect_nothing_left();
}

TEST_F(TwoHosts, BadOnesAreRefused) {
  expect_refused(train_on("-oProxyCommand=x:1"), "is no name of a host");
  expect_refused(train_on("host0:1,host0:1"), "is there twice");
  expect_refused(train_on("host0:2", {"--workers", "3"}), "for which --hosts have room");
  expect_refused(train_on("host0:2", {"--emulate", "hosts=2,link=1gbit"}),
                 "--hosts are given, which are real");
}

// A program that prints faster than its link carries: some of its lines are missing, and nothing else.
TEST_F(Hosts, OneThatPrintsMoreThanItsLinkCarriesStays) {
  make_hosts(2, "20mbit", 20'000'000);
  if (IsSkipped()) return;
  const auto program = root() / "noisy";
  std::ofstream(program) << "#!/bin/sh\n[ $RANK = 0 ] || yes " << std::string(1000, 'x')
                         << " | head -n 80000\necho the end of $RANK\n";
  fs::permissions(program, fs::perms::owner_all);
  const Ended e =
      run_there({"launch", "-H", "host0:1,host1:1", "--ssh-config", ssh_config(), "--", program.string()});
  EXPECT_EQ(e.code, 0) << e.error.substr(0, 2000);
  EXPECT_NE(e.error.find("lines that this rank printed were dropped"), std::string::npos)
      << e.error.substr(0, 2000);
  EXPECT_NE(e.out.find("the end of 0"), std::string::npos);
  expect_nothing_left();
}

TEST_F(Hosts, FourOfThemTrainToEqualReplicas) {
  make_hosts(4);
  if (IsSkipped()) return;
  const Ended e = run_there(train_on("host0:1,host1:1,host2:1,host3:1",
                                     {"--strategy", "allreduce", "--steps", "4", "--no-evaluate"}));
  ASSERT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(summary()["replicas_sha256"].size(), 4U);
  for (const auto& replica : summary()["replicas_sha256"]) EXPECT_EQ(replica, summary()["parameters_sha256"]);
  expect_nothing_left();
}

// All of a host's processes stand still. Who wakes up later finds that nobody waits for it.
TEST_F(TwoHosts, OneThatIsSuspendedIsNamed) {
  Running running(root(), train_on("host0:1,host1:2", {"--strategy", "allreduce", "--steps", "100000"}),
                  [&] { in_host(0); });
  wait_for_steps();
  const auto stopped = processes_on(1);
  for (const pid_t pid : stopped) ::kill(pid, SIGSTOP);
  const Ended e = named_in_time("a host that is suspended", [&] { return running.wait(); });
  EXPECT_EQ(e.code, 1);
  EXPECT_NE(e.error.find("host host1 (ranks 1 to 2) has been silent for 5."), std::string::npos) << e.error;
  for (const pid_t pid : stopped) ::kill(pid, SIGCONT);
  expect_nothing_left();
}

// Nobody there is told anything any more: its ranks find out by their time-out.
TEST_F(TwoHosts, OneWhoseLinkIsCutIsNamedAndEndsByItself) {
  Running running(
      root(), train_on("host0:1,host1:2", {"--strategy", "allreduce", "--steps", "100000", "--timeout", "4"}),
      [&] { in_host(0); });
  wait_for_steps();
  change_network(1, "ip", "link set eth0 down");
  const Ended e = named_in_time("a host whose link is cut", [&] { return running.wait(); });
  EXPECT_EQ(e.code, 1);
  EXPECT_NE(e.error.find("host host1 (ranks 1 to 2) "), std::string::npos) << e.error;
  expect_nothing_left();
}

// An agent that does something of its own when it hears of the job: in Python, with `agent` and `line` at
// hand, and tell() for what it shall hear.
std::string agent_that(const fs::path& file, const std::string& does) {
  std::ofstream(file) << "#!/usr/bin/python3\n"
                      << "import subprocess, sys, threading, time\n"
                      << "agent = subprocess.Popen(['" << Running::program()
                      << "', *sys.argv[1:]], stdin=subprocess.PIPE, text=True)\n"
                      << "def tell(line):\n"
                      << "    agent.stdin.write(line)\n"
                      << "    agent.stdin.flush()\n"
                      << "for line in sys.stdin:\n"
                      << "    if '\"job\"' in line:\n"
                      << "        " << does << "\n"
                      << "    tell(line)\n"
                      << "agent.stdin.close()\n"
                      << "sys.exit(agent.wait())\n";
  fs::permissions(file, fs::perms::owner_all);
  return file.string();
}

// Ranks wait half a minute for each other when they start, and one host has more data to read.
TEST_F(TwoHosts, OneThatNeedsLongToPrepareIsWaitedFor) {
  const auto slow = agent_that(root() / "slow", "threading.Timer(32, tell, [line]).start(); continue");
  const Ended e = run_there(train_on("localhost:1,host1:1", {"--remote-program", slow, "--steps", "8"}));
  ASSERT_EQ(e.code, 0) << e.error;
  expect_equal_replicas(2);
  expect_nothing_left();
}

TEST_F(TwoHosts, OneWhoseLinkIsCutWhileItPreparesIsNamed) {
  const auto asked = root() / "asked";
  const auto busy =
      agent_that(root() / "busy", "agent.kill(); open('" + asked.string() + "', 'w'); time.sleep(600)");
  Running running(root(), train_on("localhost:1,host1:1", {"--remote-program", busy}), [&] { in_host(0); });
  wait_until([&] { return fs::exists(asked); });
  change_network(1, "ip", "link set eth0 down");
  const Ended e = named_in_time("a host whose link is cut while it prepares", [&] { return running.wait(); });
  EXPECT_EQ(e.code, 1);
  EXPECT_NE(e.error.find("host host1 (rank 1) has been silent for 5."), std::string::npos) << e.error;
  expect_nothing_left();
}

TEST_F(TwoHosts, CtrlCWhileOneStillPreparesEndsAtOnce) {
  const auto asked = root() / "asked";
  const auto busy = agent_that(root() / "busy", "open('" + asked.string() + "', 'w'); continue");
  Running running(root(), train_on("localhost:1,host1:1", {"--remote-program", busy}), [&] { in_host(0); });
  wait_until([&] { return fs::exists(asked); });
  const auto begin = Clock::now();
  ::kill(running.pid(), SIGINT);
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 128 + SIGINT) << e.error;
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(4));
  EXPECT_EQ(e.error.find("saves after the next step"), std::string::npos) << e.error;
  expect_nothing_left();
}

// Looked at all the time from the start until ranks train: some wait for others only in the beginning.
TEST_F(TwoHosts, ListenOnNoWildcardAddressAndHaveNoSecretInACommandLine) {
  std::set<std::string> listening;
  std::set<std::string> commands;
  Running running(root(), train_on("host0:1,host1:2", {"--strategy", "ps-sync", "--steps", "100000"}),
                  [&] { in_host(0); });
  wait_for_steps([&] {
    for (const std::size_t host : {0U, 1U}) {
      listening.merge(listening_on(host));
      commands.merge(command_lines_on(host));
    }
  });
  ::kill(running.pid(), SIGINT);
  running.wait();
  expect_nothing_left();
  EXPECT_GT(listening.size(), 2U) << "not only those of ssh were seen";
  for (const auto& socket : listening) {
    EXPECT_NE(socket.find_first_not_of('0'), socket.find(':')) << "wildcard address, " << socket;
  }
  const auto seen = [&](const char* word) {
    return std::ranges::any_of(commands, [&](const auto& c) { return c.find(word) != std::string::npos; });
  };
  for (const char* word : {" train ", " agent", " worker"}) EXPECT_TRUE(seen(word)) << word;
  // 32 bytes: in hexadecimal, or as the numbers that an agent is told them in.
  const std::regex secret("[0-9a-fA-F]{32}|([0-9]{1,3},){31}");
  for (const auto& command : commands) EXPECT_FALSE(std::regex_search(command, secret)) << command;
}

// Every rank reads the checkpoint by its path.
TEST_F(TwoHosts, ThatShareNoRunFolderCannotGoOn) {
  const auto own = root() / "private" / "run";
  const auto train_there = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {
        "train",   "--data",          "mnist",        "--batch",   "16", "--threads",
        "1",       "--strategy",      "allreduce",    "--steps",   "4",  "--no-evaluate",
        "--hosts", "host0:1,host1:1", "--ssh-config", ssh_config()};
    all.insert(all.end(), more.begin(), more.end());
    return run_there(all);
  };
  for (const auto& more :
       {std::vector<std::string>{"--restarts", "1", "--overwrite"}, {"--resume", "auto"}}) {
    auto flags = more;
    flags.insert(flags.end(), {"--out", own.string()});
    const Ended e = train_there(flags);
    EXPECT_EQ(e.code, 2) << e.error;
    EXPECT_NE(e.error.find("host host1: " + own.string() + " is not the run folder"), std::string::npos)
        << e.error;
    expect_nothing_left();
  }
  EXPECT_EQ(train_there({"--out", own.string(), "--overwrite"}).code, 0) << "nothing is read there";
  const Ended shared = train_there({"--restarts", "1", "--out", out().string()});
  EXPECT_EQ(shared.code, 0) << shared.error;
  for (const auto& entry : fs::directory_iterator(out()))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".tutti-shared")) << entry.path();
}

TEST_F(TwoHosts, AreUsedByAComparison) {
  const auto folder = root() / "comparison";
  const Ended e = run_there({"compare", "--data", "mnist", "--strategies", "allreduce,ps-sync", "--steps",
                             "2", "--batch", "16", "--threads", "1", "--no-evaluate", "--out",
                             folder.string(), "--hosts", "host0:2,host1:1", "--ssh-config", ssh_config()});
  ASSERT_EQ(e.code, 0) << e.error;
  const auto cells = nlohmann::json::parse(read_file(folder / "compare.json"));
  ASSERT_EQ(cells.size(), 4U) << "one worker, and as many as the hosts have room for";
  for (const auto& cell : cells) {
    const auto& s = cell["summary"];
    EXPECT_EQ(s["config"]["hosts"], "host0:2,host1:1");
    for (const auto& replica : s["replicas_sha256"]) EXPECT_EQ(replica, s["parameters_sha256"]);
  }
  for (const int i : {1, 3}) EXPECT_EQ(cells[i]["summary"]["replicas_sha256"].size(), 3U);
  EXPECT_EQ(cells[3]["summary"]["config"]["local_aggregation"], true);
  expect_nothing_left();
}

// As srun and torchrun do.
TEST_F(TwoHosts, ProcessesThatOthersHaveStartedThereServeEachHostOnce) {
  const auto secret = root() / "secret";
  std::ofstream(secret) << "a secret of some length";
  fs::permissions(secret, fs::perms::owner_read | fs::perms::owner_write);
  auto arguments = train({"--strategy", "ps-sync", "--steps", "4", "--no-evaluate"});
  const auto threads = std::ranges::find(arguments, "--threads");
  arguments.erase(threads, threads + 2);
  std::vector<std::unique_ptr<Running>> processes;
  for (int rank = 0; rank < 4; ++rank) {
    const auto folder = root() / fmt::format("process-{}", rank);
    fs::create_directories(folder);
    processes.push_back(std::make_unique<Running>(folder, arguments, [&] {
      in_host(rank < 2 ? 0 : 1);
      for (const auto& [name, value] :
           std::vector<std::pair<const char*, std::string>>{{"RANK", std::to_string(rank)},
                                                            {"WORLD_SIZE", "4"},
                                                            {"MASTER_ADDR", emulate::address_of(0)},
                                                            {"MASTER_PORT", "29400"},
                                                            {"TUTTI_SECRET_FILE", secret.string()},
                                                            {"TUTTI_DATA", (root() / "data").string()}}) {
        ::setenv(name, value.c_str(), 1);
      }
      ::unsetenv("OMP_NUM_THREADS");
    }));
  }
  for (const auto& p : processes) {
    const Ended e = p->wait();
    ASSERT_EQ(e.code, 0) << e.error;
  }
  expect_equal_replicas(3);
  const auto config = summary()["config"];
  EXPECT_EQ(config["local_aggregation"], true);
  EXPECT_EQ(config["threads"], std::max<std::size_t>(1, allowed_cores().size() / 2)) << "of a host's workers";
}

#ifdef TUTTI_MPIEXEC
TEST_F(TwoHosts, AreOpenMpis) {
  const auto version = fmt::format("{} --version | grep -q -i 'open *\\(mpi\\|rte\\)'", TUTTI_MPIEXEC);
  if (std::system(version.c_str()) != 0)  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
    GTEST_SKIP() << TUTTI_MPIEXEC << " is not Open MPI's";
  const std::string agent = "ssh -F " + ssh_config();
  const auto spread = [&](const std::vector<std::string>& program) {
    return run({}, [&] {
      in_host(0);
      for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
        ::setenv(name, "1", 1);
      std::vector<const char*> argv = {
          TUTTI_MPIEXEC, "--host",        "host0:2,host1:1",    "-np",   "3",
          "--mca",       "plm_rsh_agent", agent.c_str(),        "--mca", "oob_tcp_if_include",
          "eth0",        "--mca",         "btl_tcp_if_include", "eth0"};
      for (const auto& word : program) argv.push_back(word.c_str());
      argv.push_back(nullptr);
      ::execv(TUTTI_MPIEXEC, const_cast<char**>(argv.data()));
    });
  };
  struct Case {
    std::size_t workers;
    std::vector<std::string> flags;
  };
  for (const Case& c :
       {Case{3, {"--strategy", "allreduce"}}, Case{3, {"--strategy", "ring"}},
        Case{3, {"--strategy", "reduce-broadcast"}}, Case{2, {"--strategy", "ps-sync"}},
        Case{2, {"--strategy", "hybrid"}}, Case{3, {"--strategy", "allreduce", "--engine", "mpi"}},
        Case{3, {"--strategy", "allreduce", "--transport", "mpi"}}}) {
    auto flags = c.flags;
    flags.insert(flags.end(), {"--steps", "4", "--no-evaluate", "--interface", "eth0"});
    auto program = train(flags);
    program.insert(program.begin(), Running::program());
    const Ended e = spread(program);
    ASSERT_EQ(e.code, 0) << fmt::format("{}", fmt::join(flags, " ")) << e.error;
    expect_equal_replicas(c.workers);
    const bool by_mpi = summary()["config"]["transport"] == "mpi";
    EXPECT_EQ(summary()["config"]["wire"], by_mpi ? "plain" : "auth") << "between hosts";
    expect_nothing_left();
  }
  for (const char* strategy : {"ps-async", "ps-ssp", "hogwild", "easgd", "local-sgd"}) {
    auto program = train({"--strategy", strategy, "--steps", "4", "--interface", "eth0"});
    program.insert(program.begin(), Running::program());
    const Ended e = spread(program);
    EXPECT_NE(e.code, 0) << strategy;
    EXPECT_NE(e.error.find(fmt::format("--strategy {} needs all processes on one host", strategy)),
              std::string::npos)
        << e.error;
    expect_nothing_left();
  }
}
#endif

TEST_F(TwoHosts, ProgramOnTheLibraryIsSpread) {
  for (const char* strategy : {"ring", "ps-sync"}) {
    const Ended e = run_there({"launch", "-H", "host0:2,host1:2", "--ssh-config", ssh_config(), "--",
                               TUTTI_FROM_SCRATCH, strategy});
    EXPECT_EQ(e.code, 0) << e.error;
    EXPECT_NE(e.out.find("[0] 4 processes, accuracy "), std::string::npos) << e.out;
    expect_nothing_left();
  }
}

TEST_F(TwoHosts, LaunchRefusesWhatCannotBe) {
  expect_refused({"launch", "-H", "host0:1", "-n", "2", "--ssh-config", ssh_config(), "--", "/bin/true"},
                 "there are 1 places");
  expect_refused({"launch", "-H", "host0:1,host1:1", "--transport", "shm", "--", "/bin/true"},
                 "--transport shm is for processes of one host");
  expect_refused({"launch", "--", "/bin/true"}, "launch needs -n");
}

// Hosts have two workers each, whose shards are added up on the host first.
TEST_F(TwoHosts, WithReproducibleEndWithTheBitsOfOneProcessAndSayHow) {
  const auto train_there = [&](const std::string& hosts, const std::vector<std::string>& more) {
    std::vector<std::string> all = {
        "train", "--data",       "mnist",      "--reproducible", "--global-batch",
        "16",    "--steps",      "6",          "--overwrite",    "--hosts",
        hosts,   "--ssh-config", ssh_config(), "--no-evaluate",  "--no-checkpoint",
        "--out", out().string()};
    all.insert(all.end(), more.begin(), more.end());
    const Ended e = run_there(all);
    EXPECT_EQ(e.code, 0) << e.error;
    return e.code == 0 ? summary() : nlohmann::json::object();
  };
  const auto alone = train_there("host0:1", {"--strategy", "local"});
  const auto many =
      train_there("host0:2,host1:2", {"--strategy", "allreduce", "--algorithm", "hierarchical"});
  EXPECT_EQ(many["parameters_sha256"], alone["parameters_sha256"]);
  const auto used = many["collectives"][0];
  EXPECT_EQ(used["algorithm"], "hierarchical");
  EXPECT_NE(used["reason"].get<std::string>().find("by messages"), std::string::npos) << used;
  expect_nothing_left();
}

}  // namespace
}  // namespace tutti
