// The program when it is told to stop or to save, when a disk is full, and when workers die that others can
// do without.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "checkpoint/checkpoint.h"
#include "cli/program_fixture.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class Stopped : public Program {
 protected:
  // Blocks until what the run prints holds this.
  void wait_for_words(const std::string& words) const {
    const auto printed = [&] {
      std::ifstream file(root() / "stdout");
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    wait_until([&] { return printed().find(words) != std::string::npos; });
  }

  std::string hash() const { return summary()["parameters_sha256"]; }

  std::string undisturbed(const std::vector<std::string>& arguments) {
    const Ended e = run(train(arguments));
    EXPECT_EQ(e.code, 0) << e.error;
    const auto h = hash();
    remove_tree(out());
    return h;
  }
};

class StoppedUnder : public Stopped, public ::testing::WithParamInterface<std::pair<const char*, int>> {};

TEST_P(StoppedUnder, FirstSignalSavesAndTheRunGoesOnToTheSameBits) {
  const auto& [strategy, signal] = GetParam();
  const std::vector<std::string> flags = {"--strategy", strategy, "--workers",    "2",
                                          "--steps",    "150",    "--no-evaluate"};
  const auto expected = undisturbed(flags);
  Running running(root(), train(flags));
  wait_for_steps();
  const auto workers = running.workers();
  ::kill(running.pid(), signal);
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 128 + signal) << e.error;
  EXPECT_NE(e.error.find("have ended"), std::string::npos) << e.error;
  EXPECT_NE(e.out.find("goes on"), std::string::npos) << e.out;
  expect_gone(workers);
  EXPECT_FALSE(fs::exists(out() / "summary.json"));
  const auto saved = checkpoint::latest(out());
  ASSERT_TRUE(saved);
  EXPECT_GE(saved->step, 3);
  EXPECT_LT(saved->step, 150);
  const Ended resumed = run({"train", "--resume", out().string()});
  EXPECT_EQ(resumed.code, 0) << resumed.error;
  EXPECT_EQ(hash(), expected) << "stopped after step " << saved->step;
}

INSTANTIATE_TEST_SUITE_P(Strategies, StoppedUnder,
                         ::testing::Values(std::pair{"allreduce", SIGTERM},
                                           std::pair{"reduce-broadcast", SIGINT},
                                           std::pair{"ps-sync", SIGTERM}, std::pair{"local-sgd", SIGINT},
                                           std::pair{"easgd", SIGTERM}),
                         [](const auto& p) {
                           std::string name = p.param.first;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_F(Stopped, WorkersApartSaveAndEndToo) {
  for (const char* strategy : {"ps-async", "ps-ssp", "hogwild"}) {
    Running running(root(),
                    train({"--strategy", strategy, "--workers", "3", "--steps", "2000", "--no-evaluate"}));
    wait_for_steps();
    ::kill(running.pid(), SIGTERM);
    const Ended e = running.wait();
    EXPECT_EQ(e.code, 143) << strategy << e.error;
    EXPECT_NE(e.error.find("have ended"), std::string::npos) << strategy << e.error;
    ASSERT_TRUE(checkpoint::latest(out())) << strategy;
    EXPECT_LT(checkpoint::latest(out())->step, 2000) << strategy;
    remove_tree(out());
  }
}

TEST_F(Stopped, SecondSignalEndsItAtOnce) {
  Running running(root(), train({"--workers", "2", "--steps", "9", "--pace", "600000"}));
  wait_for_words("exchange:");
  const auto workers = running.workers();
  ::kill(running.pid(), SIGTERM);
  wait_for_words("a second one ends it at once");
  ::kill(running.pid(), SIGTERM);
  const Ended e = running.wait();  // a step takes ten minutes, the test's time limit is shorter
  EXPECT_EQ(e.code, 143) << e.error;
  EXPECT_NE(e.error.find("are stopped"), std::string::npos) << e.error;
  expect_gone(workers);
}

TEST_F(Stopped, UserSignalSavesAndTheRunGoesOn) {
  const std::vector<std::string> flags = {"--workers", "2", "--steps", "62", "--no-evaluate"};
  const auto expected = undisturbed(flags);
  Running running(root(), train(flags));
  wait_for_steps();
  ::kill(running.pid(), SIGUSR1);
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(hash(), expected);
  const auto saved = checkpoint::list(out());
  ASSERT_EQ(saved.size(), 2U) << "the one that was asked for and the last; an epoch has 63 steps";
  EXPECT_GE(saved[0].step, 3);
  EXPECT_LT(saved[0].step, 62);
}

TEST_F(Stopped, FullDiskCostsLinesAndCheckpointsAndTheRunGoesOn) {
  Running running(root(),
                  train({"--workers", "2", "--steps", "4000", "--no-evaluate", "--checkpoint-every", "20"}));
  wait_until([&] { return checkpoint::latest(out()).has_value(); });
  const auto workers = running.workers();
  ASSERT_EQ(workers.size(), 2U);
  rlimit usual{};
  rlimit full{};
  ASSERT_EQ(::prlimit(workers[0], RLIMIT_FSIZE, nullptr, &usual), 0);
  full = {1, usual.rlim_max};
  ASSERT_EQ(::prlimit(workers[0], RLIMIT_FSIZE, &full, nullptr), 0);
  wait_for_words("metrics.jsonl");
  wait_for_words("no checkpoint of step");
  ASSERT_EQ(::prlimit(workers[0], RLIMIT_FSIZE, &usual, nullptr), 0);
  const auto whole = checkpoint::latest(out())->step;
  wait_until([&] { return checkpoint::latest(out())->step != whole; });  // it saves again
  ::kill(running.pid(), SIGTERM);
  EXPECT_EQ(running.wait().code, 143);
  for (const auto& step : checkpoint::list(out())) EXPECT_NO_THROW(checkpoint::load(step.path)) << step.step;
}

struct Loss {
  std::vector<std::string> flags;
  std::size_t victim;
};

void PrintTo(const Loss& loss, std::ostream* out) {
  *out << "rank " << loss.victim;
}

class DroppedWorker : public Stopped, public ::testing::WithParamInterface<Loss> {};

TEST_P(DroppedWorker, IsNamedAndTheOthersGoOnToTheEnd) {
  std::vector<std::string> flags = {"--workers", "4", "--steps", "120"};
  flags.insert(flags.end(), GetParam().flags.begin(), GetParam().flags.end());
  Running running(root(), train(flags));
  wait_for_steps();
  const auto processes = running.workers();
  ASSERT_GE(processes.size(), 4U);
  ::kill(processes[GetParam().victim], SIGKILL);
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 0) << e.error;
  const auto name = "rank " + std::to_string(GetParam().victim) + " was killed by SIGKILL";
  EXPECT_NE(e.out.find(name), std::string::npos) << e.out;
  const auto s = summary();
  EXPECT_EQ(s["dropped_workers"], nlohmann::json::array({GetParam().victim}));
  EXPECT_EQ(s["steps"], 120);
  EXPECT_EQ(s["replicas_sha256"].size(), 3U);
  EXPECT_TRUE(s["test_accuracy"].is_number());
  EXPECT_EQ(checkpoint::latest(out())->step, 120);
  expect_gone(processes);
}

INSTANTIATE_TEST_SUITE_P(Strategies, DroppedWorker,
                         ::testing::Values(Loss{{"--strategy", "ps-async"}, 2},
                                           Loss{{"--strategy", "ps-async", "--transport", "tcp"}, 1},
                                           Loss{{"--strategy", "ps-async", "--servers", "2"}, 0},
                                           Loss{{"--strategy", "ps-ssp", "--staleness", "2"}, 3},
                                           Loss{{"--strategy", "ps-sync", "--backup-workers", "1"}, 1},
                                           Loss{{"--strategy", "hogwild"}, 0},
                                           Loss{{"--strategy", "hogwild"}, 2}),
                         [](const auto& p) {
                           std::string name = p.param.flags[1] + std::to_string(p.param.victim);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace tutti
