// The program with engines that are not ours, started by our launcher and by mpirun.
#include <fmt/ranges.h>

#include "checkpoint/checkpoint.h"
#include "cli/program_fixture.h"

namespace tutti {
namespace {

void expect_equal_replicas(const nlohmann::json& summary, int workers, const std::string& what) {
  EXPECT_EQ(summary["replicas_sha256"].size(), static_cast<std::size_t>(workers)) << what;
  for (const auto& r : summary["replicas_sha256"]) EXPECT_EQ(r, summary["parameters_sha256"]) << what;
}

class Engines : public Program {};

TEST_F(Engines, OneThatIsUnknownOrDoesNotFitIsRefused) {
  expect_refused(train_into_out({"--engine", "steam"}), "'steam'; there are auto | native");
  expect_refused(train_into_out({"--engine", "mpi", "--workers", "2"}), "--engine mpi");
  expect_refused(train_into_out({"--transport", "mpi", "--workers", "2"}), "--transport mpi");
  expect_refused({"bench", "allreduce", "--transport", "mpi"}, "--transport mpi");
  expect_refused({"compare", "--data", "synthetic", "--engine", "native,mpi", "--out", out().string()},
                 "--engine mpi");
}

#ifdef TUTTI_HAVE_GLOO
TEST_F(Engines, GlooEndsWithEqualReplicasUnderEveryStrategy) {
  for (const char* strategy : {"allreduce", "ring", "reduce-broadcast", "ps-sync", "ps-async", "ps-ssp",
                               "hybrid", "hogwild", "easgd", "local-sgd"}) {
    const Ended e = run(train(
        {"--engine", "gloo", "--strategy", strategy, "--workers", "2", "--steps", "4", "--no-evaluate"}));
    ASSERT_EQ(e.code, 0) << strategy << e.error;
    expect_equal_replicas(summary(), 2, strategy);
    EXPECT_EQ(summary()["config"]["engine"], "gloo");
  }
}

TEST_F(Engines, GlooRefusesOurAlgorithms) {
  expect_refused(train_into_out({"--engine", "gloo", "--algorithm", "tree"}), "--algorithm tree");
}

TEST_F(Engines, ComparisonTrainsWithNativeAndGlooAndShowsBoth) {
  const auto folder = root() / "comparison";
  const Ended e = run({"compare", "--data", "mnist", "--strategies", "allreduce", "--workers", "1,2",
                       "--engine", "native,gloo", "--steps", "2", "--batch", "16", "--threads", "1",
                       "--no-evaluate", "--out", folder.string()});
  ASSERT_EQ(e.code, 0) << e.error;
  const auto cells = nlohmann::json::parse(read_file(folder / "compare.json"));
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[0]["variant"], "");
  for (const auto& [i, engine] : {std::pair(1, "native"), std::pair(2, "gloo")}) {
    EXPECT_EQ(cells[i]["variant"], engine);
    EXPECT_EQ(cells[i]["summary"]["config"]["engine"], engine);
    EXPECT_EQ(cells[i]["doubt"], "");
    EXPECT_NE(e.out.find(std::string("\nallreduce, ") + engine), std::string::npos) << e.out;
  }
  EXPECT_NE(read_file(folder / "report.html").find("gloo"), std::string::npos);
}

TEST_F(Engines, BenchShowsNativeAndGlooInOneTable) {
  const Ended e =
      run({"bench", "allreduce", "--engine", "native,gloo", "--sizes", "1K", "--iterations", "3", "--json"});
  ASSERT_EQ(e.code, 0) << e.error;
  const auto rows = nlohmann::json::parse(e.out);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["engine"], "native");
  EXPECT_EQ(rows[1]["engine"], "gloo");
  EXPECT_EQ(rows[1]["verified"], true);
}
#endif

#ifdef TUTTI_MPIEXEC
class UnderMpirun : public Engines {
 protected:
  // mpirun in the place of the program, with the program as its argument.
  static std::function<void()> instead(int processes, const std::vector<std::string>& arguments) {
    return [=] {
      for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                               "OMPI_MCA_rmaps_base_oversubscribe"}) {
        ::setenv(name, "1", 1);
      }
      const std::string n = std::to_string(processes);
      std::vector<const char*> argv = {TUTTI_MPIEXEC, "-n", n.c_str(), Running::program()};
      for (const auto& a : arguments) argv.push_back(a.c_str());
      argv.push_back(nullptr);
      ::execv(TUTTI_MPIEXEC, const_cast<char**>(argv.data()));
    };
  }
  Ended mpirun(int processes, const std::vector<std::string>& arguments) {
    return run({}, instead(processes, arguments));
  }

  // Blocks until each of these processes has an engine of MPI's and has worked for half a second with it.
  static void wait_for_work(const Running& running, std::size_t processes) {
    wait_until([&] { return running.workers().size() >= processes; });
    for (const pid_t p : running.workers()) {
      wait_until([&] { return has_watchdog(p); });
    }
    for (const pid_t p : running.workers()) {
      const long half_a_second = ::sysconf(_SC_CLK_TCK) / 2;
      const long before = ticks(p);
      wait_until([&] { return ticks(p) >= before + half_a_second; });
    }
  }

 private:
  static bool has_watchdog(pid_t process) {
    std::error_code gone;
    for (const auto& thread :
         std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", gone)) {
      std::string name;
      if (std::getline(std::ifstream(thread.path() / "comm"), name) && name == "watchdog") return true;
    }
    return false;
  }

  // Of processor time, by its first thread outside of the kernel.
  static long ticks(pid_t process) {
    const std::string id = std::to_string(process);
    std::ifstream stat("/proc/" + id + "/task/" + id + "/stat");
    std::string word;
    for (int i = 0; i < 14; ++i) stat >> word;
    return stat ? std::stol(word) : 0;
  }
};

TEST_F(UnderMpirun, EveryStrategyEndsWithEqualReplicasOnMpisEngine) {
  struct Case {
    int processes, workers;
    std::vector<std::string> flags;
  };
  const std::vector<Case> cases = {{2, 2, {"--strategy", "allreduce"}},
                                   {3, 3, {"--strategy", "ring", "--transport", "tcp"}},
                                   {4, 4, {"--strategy", "reduce-broadcast"}},
                                   {3, 2, {"--strategy", "ps-sync"}},
                                   {4, 2, {"--strategy", "ps-sync", "--servers", "2", "--transport", "tcp"}},
                                   {2, 2, {"--strategy", "ps-sync", "--colocate"}},
                                   {3, 2, {"--strategy", "ps-async"}},
                                   {3, 2, {"--strategy", "ps-ssp"}},
                                   {3, 2, {"--strategy", "hybrid"}},
                                   {2, 2, {"--strategy", "hogwild"}},
                                   {2, 2, {"--strategy", "local-sgd"}},
                                   {3, 3, {"--strategy", "easgd"}}};
  for (const Case& c : cases) {
    auto flags = c.flags;
    flags.insert(flags.end(), {"--engine", "mpi", "--steps", "4", "--no-evaluate"});
    const Ended e = mpirun(c.processes, train(flags));
    ASSERT_EQ(e.code, 0) << c.flags[1] << e.error;
    expect_equal_replicas(summary(), c.workers, c.flags[1]);
    EXPECT_EQ(summary()["config"]["engine"], "mpi");
  }
}

// Their workers are anywhere in the run, and find its end together by the board of their host.
TEST_F(UnderMpirun, LooseStrategiesEndWithEqualReplicas) {
  for (const char* strategy : {"ps-async", "ps-ssp", "hogwild", "easgd", "local-sgd"}) {
    const bool serves = std::string_view(strategy).starts_with("ps-");
    const Ended e = mpirun(3, train({"--strategy", strategy, "--steps", "6", "--no-evaluate"}));
    ASSERT_EQ(e.code, 0) << strategy << e.error;
    expect_equal_replicas(summary(), serves ? 2 : 3, strategy);
    EXPECT_EQ(summary()["config"]["engine"], "native") << strategy;
  }
}

// One order of sums (--reproducible), so that every way must end with the bits of one process.
TEST_F(UnderMpirun, EveryStrategyOverMpisMessagesEndsWithTheBitsOfOneProcess) {
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"train", "--data", "mnist", "--reproducible", "--global-batch", "16",
                                 "--steps", "4", "--no-evaluate", "--overwrite", "--out", out().string()});
    return flags;
  };
  ASSERT_EQ(run(with({"--strategy", "local"})).code, 0);
  const auto expected = summary()["parameters_sha256"];
  const std::vector<std::pair<int, std::vector<std::string>>> cases = {
      {2, {"--strategy", "allreduce"}},
      {3, {"--strategy", "ring"}},
      {4, {"--strategy", "reduce-broadcast"}},
      {3, {"--strategy", "ps-sync"}},
      {2, {"--strategy", "ps-sync", "--colocate"}},
      {3, {"--strategy", "hybrid", "--engine", "mpi"}}};
  for (auto [processes, flags] : cases) {
    flags.insert(flags.end(), {"--transport", "mpi"});
    const Ended e = mpirun(processes, with(flags));
    ASSERT_EQ(e.code, 0) << flags[1] << e.error;
    EXPECT_EQ(summary()["config"]["transport"], "mpi");
    EXPECT_EQ(summary()["parameters_sha256"], expected) << flags[1];
  }
}

TEST_F(UnderMpirun, WhatDoesNotFitMpisMessagesIsRefused) {
  for (const auto& [flags, words] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--wire", "encrypt"}, "--wire must be left out with --transport mpi"},
           {{"--strategy", "hogwild"}, "needs --transport shm"}}) {
    auto all = flags;
    all.insert(all.end(), {"--transport", "mpi"});
    const Ended e = mpirun(2, train_into_out(all));
    EXPECT_NE(e.code, 0);
    EXPECT_NE(e.error.find(words), std::string::npos) << e.error;
  }
}

TEST_F(UnderMpirun, OurEngineGivesTheBitsThatItGivesUnderOurLauncher) {
  const std::vector<std::string> flags = {"--steps", "4", "--no-evaluate"};
  ASSERT_EQ(mpirun(2, train(flags)).code, 0);
  const auto digest = summary()["parameters_sha256"];
  auto launched = flags;
  launched.insert(launched.end(), {"--workers", "2"});
  ASSERT_EQ(run(train(launched)).code, 0);
  EXPECT_EQ(summary()["parameters_sha256"], digest);
}

TEST_F(UnderMpirun, WhatIsWrongIsSaidOnce) {
  const Ended e = mpirun(2, train_into_out({"--workers", "3"}));
  EXPECT_NE(e.code, 0);
  const std::string words = "tutti: 3 workers and 0 servers need 3 processes, and 2 were started";
  const auto first = e.error.find(words);
  ASSERT_NE(first, std::string::npos) << e.error;
  EXPECT_EQ(e.error.find(words, first + 1), std::string::npos) << e.error;
}

TEST_F(UnderMpirun, BenchShowsEveryEngineInOneTable) {
#ifdef TUTTI_HAVE_GLOO
  const std::vector<std::string> engines = {"native", "mpi", "gloo"};
#else
  const std::vector<std::string> engines = {"native", "mpi"};
#endif
  for (const char* transport : {"shm", "mpi"}) {
    const Ended e = mpirun(
        3, {"bench", "allreduce", "--transport", transport, "--engine",
            fmt::format("{}", fmt::join(engines, ",")), "--sizes", "1K,64K", "--iterations", "3", "--json"});
    ASSERT_EQ(e.code, 0) << e.error;
    const auto rows = nlohmann::json::parse(e.out);
    ASSERT_EQ(rows.size(), 2 * engines.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i]["engine"], engines[i / 2]);
      EXPECT_EQ(rows[i]["ranks"], 3);
      EXPECT_EQ(rows[i]["transport"], transport);
      EXPECT_EQ(rows[i]["verified"], true);
    }
  }
}

TEST_F(UnderMpirun, WhatStartsItsProcessesItselfIsRefused) {
  const Ended e =
      mpirun(2, {"compare", "--data", "synthetic", "--engine", "native,mpi", "--out", out().string()});
  EXPECT_EQ(e.code, 2);
  EXPECT_NE(e.error.find("compare starts its processes itself, which Open MPI has done already"),
            std::string::npos)
      << e.error;
}

TEST_F(UnderMpirun, WorkerThatIsKilledEndsTheOthers) {
  Running running(root(), {}, instead(3, train({"--engine", "mpi", "--epochs", "50", "--no-evaluate"})));
  wait_for_steps();
  const auto workers = running.workers();
  ASSERT_EQ(workers.size(), 3U);
  ::kill(workers[1], SIGKILL);
  EXPECT_NE(running.wait().code, 0);
  // mpirun does not wait for them.
  for (const pid_t p : workers) {
    wait_until([&] { return ::kill(p, 0) != 0; });
  }
}

TEST_F(UnderMpirun, SignalToOneProcessLetsAllSaveAndTheRunGoesOnToTheSameBits) {
  const std::vector<std::string> flags = {"--steps", "150", "--no-evaluate"};
  ASSERT_EQ(mpirun(3, train(flags)).code, 0);
  const auto expected = summary()["parameters_sha256"];
  std::filesystem::remove_all(out());  // or the steps that are waited for would be those of the first run
  Running running(root(), {}, instead(3, train(flags)));
  wait_for_steps();
  const auto workers = running.workers();
  ASSERT_EQ(workers.size(), 3U);
  ::kill(workers[1], SIGTERM);
  const Ended stopped = running.wait();
  EXPECT_EQ(stopped.code, 143) << stopped.error;
  EXPECT_NE(stopped.out.find("stopped after step"), std::string::npos) << stopped.out;
  EXPECT_FALSE(std::filesystem::exists(out() / "summary.json"));
  const Ended resumed = mpirun(3, {"train", "--resume", out().string()});
  EXPECT_EQ(resumed.code, 0) << resumed.error;
  EXPECT_EQ(summary()["parameters_sha256"], expected);
}

TEST_F(UnderMpirun, UserSignalToMpirunSavesOnceAndTheRunGoesOn) {
  Running running(root(), {}, instead(2, train({"--steps", "62", "--no-evaluate"})));
  wait_for_steps();
  ::kill(running.pid(), SIGUSR1);  // mpirun passes it on to all
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(checkpoint::list(out()).size(), 2U)
      << "the one that was asked for and the last; an epoch has 63 steps";
}

// In calls that are made at once, and in those that meet first: wherever in them it is stopped.
TEST_F(UnderMpirun, WorkerThatIsStoppedInTheMidstEndsTheOthersAndIsNamed) {
  for (const char* bytes : {"4K", "32M"}) {
    Running running(root(), {},
                    instead(2, {"bench", "allreduce", "--engine", "mpi", "--sizes", bytes, "--iterations",
                                "100000000", "--timeout", "2"}));
    wait_for_work(running, 2);
    const auto workers = running.workers();
    ::kill(workers[1], SIGSTOP);
    const Ended e = running.wait();
    EXPECT_NE(e.code, 0) << bytes;
    EXPECT_NE(e.error.find("tutti: rank 0: rank 1"), std::string::npos) << bytes << e.error;
    EXPECT_NE(e.error.find("of benchmark"), std::string::npos) << bytes << e.error;
    for (const pid_t p : workers) {
      wait_until([&] { return ::kill(p, 0) != 0; });
    }
  }
}
#endif

}  // namespace
}  // namespace tutti
