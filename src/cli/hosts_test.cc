// The program on several hosts (cli/hosts_fixture.h).
#include "cli/hosts_fixture.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class TwoHosts : public Hosts {
 protected:
  void SetUp() override { make_hosts(2); }
};

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
  for (const Case& c :
       {Case{"host0:1,asleep:1", {}, 1, "host asleep (rank 1) cannot be reached"},
        Case{"host0:1,stranger:1", {}, 1, "host stranger (rank 1) cannot be reached"},
        Case{"host0:1,nowhere.invalid:1", {}, 1, "host nowhere.invalid (rank 1) cannot"},
        Case{"host0:1,host1:1", {"--remote-program", "/no/such/tutti"}, 2, "has no program /no/such/tutti"},
        Case{"host0:1,host1:1", {"--remote-program", other_version.string()}, 2, "has tutti 0.0.1 at"}}) {
    auto more = c.more;
    more.insert(more.end(), {"--steps", "4", "--strategy", "allreduce"});
    const Ended e = run_there(train_on(c.hosts, more));
    EXPECT_EQ(e.code, c.code) << c.hosts << ": " << e.error;
    EXPECT_NE(e.error.find(c.said), std::string::npos) << e.error;
    expect_nothing_left();
  }
}

// Its agent and its workers are killed at once, so that nobody there says goodbye.
TEST_F(TwoHosts, OneThatDiesInTheMiddleIsNamedAndNothingIsLeft) {
  Running running(root(), train_on("host0:1,host1:2", {"--strategy", "allreduce", "--steps", "100000"}),
                  [&] { in_host(0); });
  wait_for_steps();
  for (const pid_t pid : processes_on(1)) ::kill(pid, SIGKILL);
  const Ended e = running.wait();
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
  const Ended e = running.wait();
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
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 1);
  EXPECT_NE(e.error.find("host host1 (ranks 1 to 2) "), std::string::npos) << e.error;
  expect_nothing_left();
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

}  // namespace
}  // namespace tutti
