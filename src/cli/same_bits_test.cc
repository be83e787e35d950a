// --reproducible as people run it: real processes, every transport and engine, killed and resumed.
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <random>

#include "cli/program_fixture.h"

namespace tutti {
namespace {

class SameBits : public Program {
 protected:
  // Into out(): small enough for seconds, with dropout and 8 shards unless `more` says otherwise.
  std::vector<std::string> reproducible(std::vector<std::string> more,
                                        const std::string& global_batch = "16") const {
    std::vector<std::string> all = {"train", "--reproducible", "--global-batch", global_batch,  "--steps",
                                    steps_,  "--no-evaluate",  "--out",          out().string()};
    all.insert(all.end(), network_.begin(), network_.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> network_ = {"--data", "mnist"};
  std::string steps_ = "30";
  std::string hash_of(const std::vector<std::string>& more, const std::string& what) {
    auto flags = more;
    flags.insert(flags.end(), {"--no-checkpoint", "--overwrite"});
    return hash_after(run(reproducible(flags)), what);
  }
  std::string hash_after(const Ended& e, const std::string& what) const {
    EXPECT_EQ(e.code, 0) << what << ": " << e.error;
    return e.code == 0 ? summary()["parameters_sha256"].get<std::string>() : what;
  }

#ifdef TUTTI_MPIEXEC
  // The same of so many processes that mpirun starts, servers among them.
  std::string hash_under_mpirun(int processes, std::vector<std::string> more, const std::string& what) {
    more.insert(more.end(), {"--no-checkpoint", "--overwrite"});
    const auto arguments = reproducible(more);
    const Ended e = run({}, [&] {
      for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                               "OMPI_MCA_rmaps_base_oversubscribe"}) {
        ::setenv(name, "1", 1);
      }
      const std::string n = std::to_string(processes);
      std::vector<const char*> argv = {TUTTI_MPIEXEC, "-n", n.c_str(), Running::program()};
      for (const auto& a : arguments) argv.push_back(a.c_str());
      argv.push_back(nullptr);
      ::execv(TUTTI_MPIEXEC, const_cast<char**>(argv.data()));
    });
    return hash_after(e, what);
  }
#endif
};

TEST_F(SameBits, EveryTransportAndEngineEndsWithOneHash) {
  const auto expected = hash_of({"--strategy", "local"}, "alone");
  const std::vector<std::vector<std::string>> ways = {
      {"--strategy", "ring", "--workers", "3", "--transport", "shm"},
      {"--strategy", "ring", "--workers", "3", "--transport", "tcp"},
      {"--strategy", "ps-sync", "--workers", "3", "--servers", "2", "--transport", "tcp"},
      {"--strategy", "ps-sync", "--workers", "2", "--colocate"},
      {"--strategy", "ps-sync", "--workers", "3", "--server-role", "sum"},
      {"--strategy", "hybrid", "--workers", "2", "--transport", "tcp", "--no-overlap"},
      {"--strategy", "allreduce", "--workers", "4", "--memory-format", "auto", "--bucket-bytes", "64K"},
#ifdef TUTTI_HAVE_GLOO
      {"--strategy", "allreduce", "--workers", "3", "--engine", "gloo"},
#endif
  };
  for (const auto& way : ways) {
    std::string what;
    for (const auto& word : way) what += word + " ";
    EXPECT_EQ(hash_of(way, what), expected) << what;
  }
}

// Of a text's network the tables go by rows to servers, and whole around a ring. One with batch norm has
// statistics that go beside the gradients, and takes its time.
const std::vector<std::string> kWithStatistics = {"--model",   "mobilenetv2-cifar", "--data",
                                                  "synthetic", "--classes",         "2"};
struct Network {
  const char* name;
  const char* steps;
  std::vector<std::string> flags;
};
const std::vector<Network> kNetworks = {
    {"dense", "4", {"--data", "mnist"}},
    {"statistics", "2", kWithStatistics},
    {"sparse",
     "4",
     {"--model", "lstm-lm", "--data", "synthetic", "--vocabulary", "2000", "--embedding", "8", "--hidden",
      "16", "--unroll", "4", "--sampled", "40", "--optimizer", "sgd", "--lr", "0.1"}}};

TEST_F(SameBits, EveryTransportCarriesAllKindsOfNetworksAlike) {
  for (const auto& [name, steps, network] : kNetworks) {
    network_ = network;
    steps_ = steps;
    const auto expected = hash_of({"--strategy", "local"}, name);
    EXPECT_NE(summary()["initial_parameters_sha256"], expected) << name;
    for (const std::vector<std::string>& transport :
         {std::vector<std::string>{"shm"}, {"tcp"}, {"tcp", "--wire", "encrypt"}}) {
      for (const std::vector<std::string>& strategy :
           {std::vector<std::string>{"ring", "--workers", "3"}, {"ps-sync", "--workers", "2"}}) {
        std::vector<std::string> way = {"--strategy"};
        way.insert(way.end(), strategy.begin(), strategy.end());
        way.emplace_back("--transport");
        way.insert(way.end(), transport.begin(), transport.end());
        const auto what = fmt::format("{}, {} over {}", name, strategy[0], fmt::join(transport, " "));
        EXPECT_EQ(hash_of(way, what), expected) << what;
        EXPECT_EQ(summary()["config"]["transport"], transport[0]) << what;
      }
    }
  }
}

// Sums of a layer's statistics are an exchange of their own, in the middle of a pass.
TEST_F(SameBits, SynchronisedStatisticsAreTheSameOverTcp) {
  steps_ = "2";
  network_ = kWithStatistics;
  const auto expected = hash_of({"--strategy", "local", "--sync-batchnorm", "--shards", "4"}, "alone");
  const std::vector<std::string> ring = {
      "--strategy", "ring", "--workers", "3", "--transport", "tcp", "--sync-batchnorm", "--shards", "4"};
  EXPECT_EQ(hash_of(ring, "ring"), expected);
  EXPECT_EQ(summary()["config"]["transport"], "tcp");
}

TEST_F(SameBits, TwoThreadsAWorkerAreTheSameEverywhere) {
  steps_ = "3";
  const auto expected = hash_of({"--strategy", "local", "--threads", "2"}, "alone");
  EXPECT_EQ(hash_of({"--strategy", "ring", "--workers", "2", "--threads", "2"}, "ring"), expected);
  EXPECT_EQ(summary()["config"]["threads"], 2);
}

#ifdef TUTTI_MPIEXEC
TEST_F(SameBits, MpisMessagesCarryAllKindsOfNetworksAlike) {
  for (const auto& [name, steps, network] : kNetworks) {
    network_ = network;
    steps_ = steps;
    const auto expected = hash_of({"--strategy", "local"}, name);
    for (const char* strategy : {"ring", "ps-sync"}) {
      const auto what = fmt::format("{}, {} over mpi", name, strategy);
      EXPECT_EQ(hash_under_mpirun(3, {"--strategy", strategy, "--transport", "mpi"}, what), expected) << what;
      EXPECT_EQ(summary()["config"]["transport"], "mpi") << what;
    }
  }
}

TEST_F(SameBits, MpiAddsUpInTheSameOrder) {
  const auto expected = hash_of({"--strategy", "local"}, "alone");
  for (const char* strategy : {"allreduce", "reduce-broadcast"}) {
    const auto way = {"--engine", "mpi", "--strategy", strategy, "--workers", "3"};
    EXPECT_EQ(hash_under_mpirun(3, {way.begin(), way.end()}, strategy), expected) << strategy;
  }
}
#endif

// Whether the process has not ended.
bool lives(pid_t process) {
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT);
  return ended.si_pid == 0;
}

TEST_F(SameBits, KilledTenTimesAndResumedInOtherWaysItEndsWithTheSameHash) {
  steps_ = "150";  // more than ten times those that it is let make
  const auto expected = hash_of({"--strategy", "local"}, "alone");
  std::filesystem::remove_all(out());
  const std::vector<std::vector<std::string>> ways = {
      {"--strategy", "ring", "--workers", "3"},
      {"--strategy", "ps-sync", "--workers", "2", "--servers", "2"},
      {"--strategy", "local"},
      {"--strategy", "allreduce", "--workers", "4", "--transport", "tcp"},
      {"--strategy", "hybrid", "--workers", "2"}};
  std::mt19937 random(7);
  const auto arguments = [&](std::size_t way) {
    auto flags = ways[way % ways.size()];
    flags.insert(flags.end(), {"--resume", "auto", "--checkpoint-every", "2"});
    return reproducible(flags);
  };
  // Each is let make a few steps more, and is killed wherever it is then.
  for (std::size_t kill = 0; kill < 10; ++kill) {
    std::filesystem::remove(out() / "metrics.jsonl");
    Running running(root(), arguments(kill));
    const auto steps = 1 + random() % 3;
    const auto made = [&] {
      std::ifstream lines(out() / "metrics.jsonl");
      unsigned found = 0;
      for (std::string line; std::getline(lines, line);)
        found += line.find("\"event\":\"step\"") != std::string::npos ? 1 : 0;
      return found;
    };
    wait_until([&] { return made() >= steps || !lives(running.pid()); });
    ASSERT_TRUE(lives(running.pid()))
        << "kill " << kill << " came too late: " << read_file(root() / "stderr");
    for (const pid_t worker : running.workers()) ::kill(worker, SIGKILL);
    ::kill(running.pid(), SIGKILL);
    running.wait();
  }
  EXPECT_FALSE(std::filesystem::exists(out() / "summary.json")) << "it ended before the tenth kill";
  const Ended e = run(arguments(3));
  ASSERT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(summary()["parameters_sha256"], expected);
}

TEST_F(SameBits, OtherKernelsAreNamedAsTheLikelyReason) {
  steps_ = "2";
  const auto train_with = [&](const char* seed, const std::function<void()>& before) {
    const Ended e = run(reproducible({"--workers", "2", "--seed", seed}), before);
    ASSERT_EQ(e.code, 0) << e.error;
    std::filesystem::rename(out(), root() / seed);
  };
  // Other seeds, so that the bits differ whether or not the kernels do on this processor.
  train_with("1", [] { ::unsetenv("ATEN_CPU_CAPABILITY"); });
  train_with("2", [] { ::setenv("ATEN_CPU_CAPABILITY", "default", 1); });
  const Ended e = run({"ckpt", "diff", (root() / "1").string(), (root() / "2").string()});
  EXPECT_EQ(e.code, 1) << e.error;
  const auto reason = e.out.find("likely reason: kernels [");
  ASSERT_NE(reason, std::string::npos) << e.out;
  const auto place = e.out.find("\"ATEN_CPU_CAPABILITY=default\"", reason);
  EXPECT_NE(place, std::string::npos) << e.out;
  EXPECT_GT(place, e.out.find(" against ", reason)) << e.out;
}

// Nine workers by themselves would cut the batch into sixteen parts, and one into eight.
TEST_F(SameBits, AComparisonTrainsTheSameAtEveryNumberOfWorkers) {
  const Ended e = run({"compare", "--data", "mnist", "--reproducible", "--global-batch", "32", "--strategies",
                       "local,ring", "--workers", "1,9", "--steps", "2", "--no-evaluate", "--no-checkpoint",
                       "--out", out().string()});
  ASSERT_EQ(e.code, 0) << e.error;
  const auto cells = nlohmann::json::parse(read_file(out() / "compare.json"));
  ASSERT_EQ(cells.size(), 3U);
  for (const auto& cell : cells) {
    EXPECT_EQ(cell["summary"]["config"]["shards"], 16);
    EXPECT_EQ(cell["summary"]["parameters_sha256"], cells[0]["summary"]["parameters_sha256"]);
  }
}

TEST_F(SameBits, BadInputIsRefusedWithItsReason) {
  const auto refused = [&](const std::string& global_batch, const std::vector<std::string>& flags,
                           const std::string& word) {
    expect_refused(reproducible(flags, global_batch), word);
  };
  refused("16", {"--workers", "4", "--shards", "2"}, "at least one for each of 4 workers");
  refused("20", {}, "a divisor of the 20 samples");
  refused("16", {"--strategy", "ps-async", "--workers", "2"}, "do not keep step");
  refused("16", {"--strategy", "easgd", "--workers", "2"}, "replicas differ");
}

}  // namespace
}  // namespace tutti
