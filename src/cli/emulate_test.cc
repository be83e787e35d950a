// The program on an emulated cluster. Where this machine lets nobody make one, that is said and the test
// skipped.
#include <net/if.h>
#include <sys/prctl.h>

#include <memory>
#include <set>
#include <sstream>

#include "base/error.h"
#include "cli/program_fixture.h"
#include "emulate/cluster.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class Emulated : public Program {
 protected:
  void SetUp() override {
    try {
      emulate::Cluster({.hosts = 1, .link = "1gbit", .bits_per_second = 1'000'000'000}, 1);
    } catch (const ConfigError& e) {
      GTEST_SKIP() << e.what();
    }
  }
};

// "net:[4026531840]" of every network namespace that the process is in or holds a descriptor of.
std::set<std::string> networks_held(pid_t pid) {
  std::set<std::string> held;
  const auto note = [&](const fs::path& link) {
    std::error_code gone;
    const auto target = fs::read_symlink(link, gone).string();
    if (target.starts_with("net:[")) held.insert(target);
  };
  const auto process = fs::path("/proc") / std::to_string(pid);
  note(process / "ns/net");
  for (const auto& fd : fs::directory_iterator(process / "fd")) note(fd.path());
  return held;
}

std::set<std::string> devices_of_this_machine() {
  std::set<std::string> names;
  // Not from /sys, which a bare root need not have.
  const auto free = [](struct if_nameindex* all) { ::if_freenameindex(all); };
  const std::unique_ptr<struct if_nameindex, decltype(free)> all(::if_nameindex());
  for (const auto* device = all.get(); device != nullptr && device->if_index != 0; ++device)
    names.insert(device->if_name);
  return names;
}

std::set<std::string> named_networks() {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& name : fs::directory_iterator("/run/netns", none)) names.insert(name.path().filename());
  return names;
}

TEST_F(Emulated, RunEndsWithTheSameBitsAndSaysWhatPassedEachLink) {
  const std::vector<std::string> flags = {"--strategy", "ps-sync", "--workers",    "2", "--servers", "1",
                                          "--steps",    "4",       "--no-evaluate"};
  ASSERT_EQ(run(train(flags)).code, 0);
  const auto alone = summary();
  EXPECT_FALSE(alone.contains("emulated"));
  auto emulated = flags;
  emulated.insert(emulated.end(), {"--emulate", "hosts=4,link=1gbit"});
  const Ended e = run(train(emulated));
  ASSERT_EQ(e.code, 0) << e.error;
  EXPECT_NE(e.out.find("emulated hosts=4,link=1gbit"), std::string::npos) << e.out;
  const auto s = summary();
  EXPECT_EQ(s["parameters_sha256"], alone["parameters_sha256"]);
  EXPECT_EQ(s["config"]["transport"], "tcp");
  EXPECT_EQ(s["config"]["wire"], "auth");
  EXPECT_EQ(s["emulated"]["hosts"], 4);
  EXPECT_EQ(s["emulated"]["link"], "1gbit");
  const auto& hosts = s["emulated"]["per_host"];
  ASSERT_EQ(hosts.size(), 4U);
  const auto gradients = s["bytes_sent_per_worker"].get<std::uint64_t>();
  for (const int worker : {0, 1}) {
    EXPECT_EQ(hosts[worker]["ranks"], nlohmann::json({worker}));
    EXPECT_GT(hosts[worker]["bytes_sent"], gradients);
    EXPECT_GT(hosts[worker]["bytes_received"], gradients);
  }
  EXPECT_GT(hosts[2]["bytes_received"], 2 * gradients);  // the server
  EXPECT_EQ(hosts[3]["ranks"], nlohmann::json::array());
  EXPECT_LT(hosts[3]["bytes_sent"], 1000);
  for (const auto& host : hosts) {  // no packet is longer than a frame
    EXPECT_LE(host["bytes_sent"], 1514 * host["packets_sent"].get<std::uint64_t>());
    EXPECT_LE(host["bytes_received"], 1514 * host["packets_received"].get<std::uint64_t>());
  }
}

TEST_F(Emulated, MoreProcessesThanHostsAreDealtInTurnAndServersLiveWithTheirWorkers) {
  const Ended e = run(train({"--strategy", "ps-sync", "--workers", "3", "--colocate", "--steps", "2",
                             "--no-evaluate", "--emulate", "hosts=2,link=1gbit"}));
  ASSERT_EQ(e.code, 0) << e.error;
  const auto hosts = summary()["emulated"]["per_host"];
  EXPECT_EQ(hosts[0]["ranks"], nlohmann::json({0, 3, 2, 5}));
  EXPECT_EQ(hosts[1]["ranks"], nlohmann::json({1, 4}));
}

// Two workers a host add up in its memory before anything leaves, by all-reduce and to the servers: replicas
// are equal, and each link carries less than with the same strategy over all ranks alike.
TEST_F(Emulated, WorkersOfAHostAddUpBeforeTheirLink) {
  const auto sent_by_hosts = [&](const std::vector<std::string>& flags) {
    auto all = flags;
    all.insert(all.end(),
               {"--workers", "4", "--steps", "4", "--no-evaluate", "--emulate", "hosts=2,link=1gbit"});
    const Ended e = run(train(all));
    EXPECT_EQ(e.code, 0) << e.error;
    const auto s = summary();
    EXPECT_EQ(std::set<std::string>(s["replicas_sha256"].begin(), s["replicas_sha256"].end()).size(), 1U);
    std::uint64_t sent = 0;
    for (const auto& host : s["emulated"]["per_host"]) sent += host["bytes_sent"].get<std::uint64_t>();
    return sent;
  };
  const auto hierarchical = sent_by_hosts({"--strategy", "allreduce"});
  const auto chosen = summary()["collectives"][0];
  EXPECT_EQ(chosen["algorithm"], "hierarchical");
  EXPECT_NE(chosen["reason"].get<std::string>().find("4 ranks on 2 hosts"), std::string::npos) << chosen;
  const auto ring = sent_by_hosts({"--strategy", "ring"});
  EXPECT_EQ(summary()["collectives"][0]["algorithm"], "ring");
  EXPECT_LT(5 * hierarchical, 4 * ring) << "two thirds of it, and the first weights";
  const auto together = sent_by_hosts({"--strategy", "ps-sync"});
  EXPECT_TRUE(summary()["config"]["local_aggregation"]);
  // It was chosen, not asked for, so a run that goes on may do without.
  const Ended on = run({"train", "--resume", out().string(), "--steps", "5", "--no-local-aggregation"});
  EXPECT_EQ(on.code, 0) << on.error;
  EXPECT_FALSE(summary()["config"]["local_aggregation"]);
  const auto each = sent_by_hosts({"--strategy", "ps-sync", "--no-local-aggregation"});
  EXPECT_LT(together, each);
}

#ifdef TUTTI_HAVE_GLOO
// Nobody makes a group of a host's workers there, so each pushes for itself.
TEST_F(Emulated, ServersOfWorkersWithGlooAreToldOfEachOfThem) {
  std::vector<std::string> flags = {"--strategy",    "ps-sync",   "--engine",          "gloo",
                                    "--workers",     "4",         "--steps",           "4",
                                    "--no-evaluate", "--emulate", "hosts=2,link=1gbit"};
  flags.emplace_back("--local-aggregation");
  expect_refused(train_into_out(flags), "--local-aggregation does not fit --engine gloo");
  flags.pop_back();
  const Ended e = run(train(flags));
  ASSERT_EQ(e.code, 0) << e.error;
  const auto s = summary();
  EXPECT_FALSE(s["config"]["local_aggregation"]);
  EXPECT_EQ(std::set<std::string>(s["replicas_sha256"].begin(), s["replicas_sha256"].end()).size(), 1U);
}
#endif

TEST_F(Emulated, BenchmarkOfRanksThatShareHostsIsVerified) {
  for (const char* algorithm : {"auto", "hierarchical", "ring"}) {
    const Ended e = run({"bench", "allreduce", "--emulate", "hosts=2,link=1gbit", "--ranks", "4",
                         "--algorithm", algorithm, "--sizes", "4K,9M", "--iterations", "1", "--json"});
    ASSERT_EQ(e.code, 0) << e.error;
    for (const auto& row : nlohmann::json::parse(e.out)) {
      EXPECT_EQ(row["algorithm"], std::string(algorithm) == "ring" ? "ring" : "hierarchical");
      EXPECT_TRUE(row["verified"]);
      EXPECT_NEAR(row["bound_seconds"].get<double>() * row["link_bytes_per_second"].get<double>(),
                  row["bytes"].get<double>(), 1)
          << "2 (H - 1) / H";
    }
  }
}

TEST_F(Emulated, BenchmarksSayWhatTheLinkCarries) {
  const Ended e = run({"bench", "allreduce", "--emulate", "hosts=3,link=1gbit", "--algorithm", "ring",
                       "--sizes", "64K,1M", "--iterations", "2", "--json"});
  ASSERT_EQ(e.code, 0) << e.error;
  const auto rows = nlohmann::json::parse(e.out);
  ASSERT_EQ(rows.size(), 2U);
  for (const auto& row : rows) {
    EXPECT_EQ(row["ranks"], 3);
    EXPECT_EQ(row["transport"], "tcp");
    EXPECT_EQ(row["wire"], "auth");
    EXPECT_EQ(row["emulated"]["link"], "1gbit");
    EXPECT_EQ(row["emulated"]["per_host"].size(), 3U);
    EXPECT_GT(row["link_bytes_per_second"], 0);
    EXPECT_LT(row["link_bytes_per_second"], 125e6);
    EXPECT_GT(row["bound_seconds"], 0);
  }
  const auto ps = run({"bench", "ps", "--emulate", "hosts=3,link=1gbit", "--sizes", "64K", "--iterations",
                       "2", "--table-rows", "1000", "--json"});
  ASSERT_EQ(ps.code, 0) << ps.error;
  const auto ps_rows = nlohmann::json::parse(ps.out);
  ASSERT_EQ(ps_rows.size(), 5U);
  EXPECT_EQ(ps_rows[0]["workers"], 2);
  for (const auto& row : ps_rows) EXPECT_EQ(row["emulated"]["hosts"], 3);
}

TEST_F(Emulated, AnyProgramRunsOnEveryHostAndKnowsItsRank) {
  const Ended e =
      run({"emulate", "hosts=3,link=1gbit", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE, $MASTER_ADDR"});
  ASSERT_EQ(e.code, 0) << e.error;
  for (const char* rank : {"0", "1", "2"})
    EXPECT_NE(e.out.find(std::string(rank) + " of 3, 10.77.1.0"), std::string::npos) << e.out;
  EXPECT_NE(e.error.find("host 2: sent"), std::string::npos) << e.error;
  EXPECT_EQ(run({"emulate", "hosts=2,link=1gbit", "--", "sh", "-c", "exit 3"}).code, 3);
  expect_refused({"emulate", "hosts=2,link=1gbit", "--", "no-such-program"}, "no-such-program");
  expect_refused({"emulate", "hosts=2,link=1gbit"}, "command");
  expect_refused({"emulate", "link=1gbit", "--", "true"}, "hosts=N");
}

TEST_F(Emulated, WhatAProgramLeavesRunningOnAHostIsEndedWithIt) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // what is left comes to us, and we see how it ended
  const Ended e = run({"emulate", "hosts=2,link=1gbit", "--", "sh", "-c", "sleep 1000 & echo $!"});
  ASSERT_EQ(e.code, 0) << e.error;
  std::istringstream pids(e.out);
  int left = 0;
  for (pid_t pid = 0; pids >> pid; ++left) {
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
  }
  EXPECT_EQ(left, 2) << e.out;
}

TEST_F(Emulated, KilledLauncherLeavesNoProcessNoNamespaceAndNoDevice) {
  const auto devices = devices_of_this_machine();
  const auto names = named_networks();
  const auto endless = train(
      {"--workers", "2", "--epochs", "50", "--no-evaluate", "--emulate", "link=1gbit", "--strategy", "ring"});
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // the workers of who is killed come to us
  std::vector<pid_t> workers;
  std::set<std::string> made;
  {
    const Running running(root(), endless);
    wait_for_steps();
    workers = running.workers();
    ASSERT_EQ(workers.size(), 2U);
    made = networks_held(running.pid());
    for (const auto& ours : networks_held(::getpid())) made.erase(ours);
    EXPECT_EQ(made.size(), 3U) << "two hosts and a switch";
    EXPECT_EQ(devices_of_this_machine(), devices);
    EXPECT_EQ(named_networks(), names);
  }  // killed by SIGKILL
  for (const pid_t worker : workers) EXPECT_EQ(::waitpid(worker, nullptr, 0), worker);
  ASSERT_EQ(run(train({"--workers", "2", "--steps", "2", "--no-evaluate", "--emulate", "link=1gbit"})).code,
            0);
  // Their numbers may be those of others' networks by now; but whoever could still hold them would have come
  // to us.
  pid_t reaped = 0;
  while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
  }
  ASSERT_EQ(reaped, -1) << "a process is left, and still runs";
  EXPECT_EQ(errno, ECHILD);
  for (const auto& ours : networks_held(::getpid())) EXPECT_FALSE(made.contains(ours)) << ours;
  EXPECT_EQ(devices_of_this_machine(), devices);
  EXPECT_EQ(named_networks(), names);
}

TEST_F(Program, EmulationThatCannotBeIsRefused) {
  expect_refused(train({"--emulate", "hosts=0,link=1gbit"}), "hosts=0");
  expect_refused(train({"--emulate", "link=fast"}), "link=fast");
  expect_refused(train({"--emulate", "hosts=2"}), "rate is missing");
  expect_refused(train({"--emulate", "link=1gbit", "--transport", "shm"}), "--transport");
  expect_refused({"compare", "--emulate", "racks=2"}, "racks=2");
  expect_refused({"bench", "allreduce", "--emulate", "hosts=2,link=1"}, "link=1");
  expect_refused({"bench", "allreduce", "--emulate", "link=1gbit", "--transport", "shm"}, "--transport");
  expect_refused({"bench", "ps", "--emulate", "link=1gbit", "--transport", "inproc"}, "--transport");
}

// Nobody may make namespaces, whoever runs this test.
TEST(EmulatedDeath, WithoutRootItIsRefused) {
  EXPECT_EXIT(
      {
        if (::geteuid() == 0) (void)::setuid(65534);
        try {
          emulate::Cluster({.hosts = 2, .link = "1gbit", .bits_per_second = 1'000'000'000}, 2);
        } catch (const ConfigError& e) {
          std::fputs(e.what(), stderr);
          std::_Exit(2);
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(2), "needs root");
}

}  // namespace
}  // namespace tutti
