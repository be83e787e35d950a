// The program and its folders: who may write there, what is never lost, and how a run goes on.
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/crypto.h"
#include "checkpoint/checkpoint.h"
#include "cli/program_fixture.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class RunFolderOfProgram : public Program {
 protected:
  static std::string digest_of(const fs::path& file) {
    const std::string text = read_file(file);
    return sha256_hex(std::as_bytes(std::span(text)));
  }

  // Digests, so that a difference is short to read.
  std::map<std::string, std::string> contents(const fs::path& folder) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file() && entry.path().filename() != ".tutti-lock")
        files[entry.path().string()] = digest_of(entry.path());
    }
    return files;
  }

  void expect_refused_in_one_line(const Ended& e, const std::vector<std::string>& words) {
    EXPECT_EQ(e.code, 2) << e.error;
    EXPECT_EQ(std::ranges::count(e.error, '\n'), 1) << e.error;
    for (const auto& word : words) EXPECT_NE(e.error.find(word), std::string::npos) << e.error;
  }

  std::vector<int> steps_in_metrics() const {
    std::istringstream lines(read_file(out() / "metrics.jsonl"));
    std::vector<int> steps;
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json["event"] == "step") steps.push_back(json["step"]);
    }
    return steps;
  }

  static std::vector<int> one_to(int last) {
    std::vector<int> all;
    for (int i = 1; i <= last; ++i) all.push_back(i);
    return all;
  }

  // Runs that end with equal bits if nothing is lost.
  const std::vector<std::string> flags_ = {"--workers",          "2", "--steps", "40", "--no-evaluate",
                                           "--checkpoint-every", "5"};
  std::vector<std::string> with(const std::vector<std::string>& more) const {
    auto all = flags_;
    all.insert(all.end(), more.begin(), more.end());
    return train_into_out(all);
  }
};

TEST_F(RunFolderOfProgram, ASecondRunIsRefusedAndTheFirstIsUnharmed) {
  Running first(root(), train_into_out({"--workers", "2", "--steps", "300", "--no-evaluate",
                                        "--checkpoint-every", "50"}));
  wait_for_steps();
  const auto second_root = root() / "second";
  fs::create_directories(second_root);
  fs::create_directory_symlink(root() / "data", second_root / "data");
  for (const auto& how : std::vector<std::vector<std::string>>{
           {}, {"--overwrite"}, {"--resume", "auto"}, {"--resume", out().string()}}) {
    const Ended second = Running(second_root, train_into_out(how)).wait();
    expect_refused_in_one_line(second, {"process " + std::to_string(first.pid()) + " trains there"});
  }
  const Ended e = first.wait();
  EXPECT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(steps_in_metrics(), one_to(300));
  EXPECT_EQ(checkpoint::list(out()).size(), 6U);
}

TEST_F(RunFolderOfProgram, TheSameCommandAgainIsRefusedAndLosesNothing) {
  ASSERT_EQ(run(with({})).code, 0);
  const auto before = contents(out());
  expect_refused_in_one_line(run(with({})), {"--resume", "--overwrite"});
  EXPECT_EQ(contents(out()), before);
  EXPECT_EQ(run(with({"--overwrite"})).code, 0);
}

TEST_F(RunFolderOfProgram, FilesOfOthersAreNeverTouched) {
  fs::create_directories(out());
  write_file_atomically(out() / "report.html", std::string_view("somebody else's"));
  for (const auto& how : std::vector<std::vector<std::string>>{{}, {"--overwrite"}, {"--resume", "auto"}}) {
    expect_refused_in_one_line(run(with(how)), {out().string()});
    EXPECT_EQ(read_file(out() / "report.html"), "somebody else's");
  }
  fs::rename(out() / "report.html", out() / "notes.html");
  EXPECT_EQ(run(with({"--overwrite"})).code, 0);
  EXPECT_EQ(read_file(out() / "notes.html"), "somebody else's");
}

TEST_F(RunFolderOfProgram, ACommandThatResumesByItselfIsRepeatedUntilItIsComplete) {
  ASSERT_EQ(run(with({})).code, 0);
  const auto undisturbed = summary()["parameters_sha256"];
  remove_tree(out());
  const auto command = with({"--resume", "auto"});
  for (const char* step : {"\"step\":7,", "\"step\":17,"}) {
    Running running(root(), command);
    wait_for(step, out());
    ::kill(running.pid(), SIGKILL);
    running.wait();
  }
  const Ended last = run(command);
  ASSERT_EQ(last.code, 0) << last.error;
  EXPECT_EQ(summary()["parameters_sha256"], undisturbed);
  EXPECT_EQ(steps_in_metrics(), one_to(40));
  const auto before = contents(out());
  const Ended again = run(command);
  EXPECT_EQ(again.code, 0) << again.error;
  EXPECT_NE(again.out.find("complete"), std::string::npos) << again.out;
  EXPECT_EQ(contents(out()), before);
  expect_refused_in_one_line(run(with({"--resume", "auto", "--overwrite"})), {"--overwrite"});
  EXPECT_EQ(contents(out()), before);
}

TEST_F(RunFolderOfProgram, AutomaticResumeNeedsAFolder) {
  expect_refused({"train", "--data", "mnist", "--resume", "auto"}, "--out");
}

TEST_F(RunFolderOfProgram, KilledBeforeItsFirstCheckpointItBeginsAnew) {
  const auto command = train_into_out(
      {"--resume", "auto", "--workers", "2", "--steps", "12", "--checkpoint-every", "11", "--no-evaluate"});
  Running running(root(), command);
  wait_for_steps();
  ::kill(running.pid(), SIGKILL);
  running.wait();
  const Ended e = run(command);
  EXPECT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(steps_in_metrics(), one_to(12));
}

TEST_F(RunFolderOfProgram, ADamagedCheckpointIsSaidAndTheOneBeforeItTaken) {
  ASSERT_EQ(run(with({})).code, 0);
  const auto undisturbed = summary()["parameters_sha256"];
  const auto file = checkpoint::step_folder(out(), 40) / "optimizer.safetensors";
  std::string bytes = read_file(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file_atomically(file, bytes);
  const Ended e = run({"train", "--resume", out().string()});
  ASSERT_EQ(e.code, 0) << e.error;
  EXPECT_NE(e.out.find("step-40/optimizer.safetensors"), std::string::npos) << e.out;
  EXPECT_NE(e.out.find("going on from step 35"), std::string::npos) << e.out;
  EXPECT_EQ(summary()["parameters_sha256"], undisturbed);
  EXPECT_TRUE(fs::exists(out() / "checkpoints" / "step-40.superseded"));
  EXPECT_NE(read_file(out() / "metrics.jsonl").find("step-40.superseded"), std::string::npos);
}

TEST_F(RunFolderOfProgram, AResumedRunThatFailsLeavesNoSummaryOfTheShorterOne) {
  ASSERT_EQ(run(with({})).code, 0);
  Running running(root(), {"train", "--resume", out().string(), "--epochs", "90"});
  wait_for("\"step\":43,", out());
  ::kill(running.workers().at(1), SIGKILL);
  EXPECT_EQ(running.wait().code, 1);
  EXPECT_FALSE(fs::exists(out() / "summary.json"));
  EXPECT_FALSE(fs::exists(out() / "report.html"));
}

TEST_F(RunFolderOfProgram, RestartsGoOnFromTheLastCheckpointToTheSameBits) {
  const std::vector<std::string> flags = {"--workers",          "2", "--steps", "150", "--no-evaluate",
                                          "--checkpoint-every", "5"};
  ASSERT_EQ(run(train_into_out(flags)).code, 0);
  const auto undisturbed = summary()["parameters_sha256"];
  remove_tree(out());
  auto restarting = flags;
  restarting.insert(restarting.end(), {"--restarts", "2"});
  Running running(root(), train_into_out(restarting));
  wait_until([&] { return checkpoint::latest(out()).has_value(); });
  ::kill(running.workers().at(1), SIGKILL);
  wait_for("restart 1 of 2", out());
  std::vector<pid_t> workers;
  wait_until([&] {
    workers = running.workers();
    return workers.size() >= 2;
  });
  ::kill(workers.at(0), SIGKILL);
  const Ended e = running.wait();
  ASSERT_EQ(e.code, 0) << e.error;
  const auto s = summary();
  EXPECT_EQ(s["parameters_sha256"], undisturbed);
  EXPECT_EQ(s["restarts"], 2);
  ASSERT_EQ(s["restart_causes"].size(), 2U);
  EXPECT_NE(s["restart_causes"][0]["because"].get<std::string>().find("rank 1 was killed by SIGKILL"),
            std::string::npos);
  EXPECT_GE(s["restart_causes"][0]["from_step"], 5);
  EXPECT_NE(s["restart_causes"][1]["because"].get<std::string>().find("rank 0"), std::string::npos);
  EXPECT_EQ(steps_in_metrics(), one_to(150));
  EXPECT_NE(e.out.find("starting again from step"), std::string::npos) << e.out;
}

TEST_F(RunFolderOfProgram, WhatIsInterruptedIsNotStartedAgain) {
  Running running(root(), train_into_out({"--workers", "2", "--epochs", "90", "--restarts", "3"}));
  wait_for_steps();
  ::kill(running.pid(), SIGINT);
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 130) << e.error;
  EXPECT_EQ(e.out.find("starting again"), std::string::npos) << e.out;
}

TEST_F(RunFolderOfProgram, LeftoversOfAKilledRunAreSweptByTheNext) {
  ASSERT_EQ(run(with({})).code, 0);
  fs::create_directories(out() / "checkpoints" / "step-45.partial");
  fs::create_directories(out() / "checkpoints" / "step-45.replicas.partial");
  write_file_atomically(out() / "metrics.jsonl.partial-aB3dE5", std::string_view("half"));
  ASSERT_EQ(run({"train", "--resume", out().string(), "--steps", "42"}).code, 0);
  EXPECT_FALSE(fs::exists(out() / "checkpoints" / "step-45.partial"));
  EXPECT_FALSE(fs::exists(out() / "checkpoints" / "step-45.replicas.partial"));
  EXPECT_FALSE(fs::exists(out() / "metrics.jsonl.partial-aB3dE5"));
}

TEST_F(RunFolderOfProgram, AComparisonTakesNoFolderOfOthersAndGoesOnInItsOwn) {
  const std::vector<std::string> compare = {
      "compare", "--data", "mnist",   "--strategies", "ring",          "--workers", "2",
      "--steps", "400",    "--batch", "16",           "--no-evaluate", "--out",     out().string()};
  fs::create_directories(out() / "ring-2");
  write_file_atomically(out() / "ring-2" / "summary.json", std::string_view("somebody else's"));
  expect_refused_in_one_line(run(compare), {"compare.json"});
  EXPECT_EQ(read_file(out() / "ring-2" / "summary.json"), "somebody else's");
  remove_tree(out());

  Running running(root(), compare);
  wait_for("\"step\":3,", out() / "ring-2");
  const auto second_root = root() / "second";
  fs::create_directories(second_root);
  fs::create_directory_symlink(root() / "data", second_root / "data");
  expect_refused_in_one_line(Running(second_root, compare).wait(), {"trains there"});
  ::kill(running.pid(), SIGKILL);
  running.wait();
  const Ended e = run(compare);
  EXPECT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(nlohmann::json::parse(read_file(out() / "compare.json"))[0]["summary"]["steps"], 400);
}

}  // namespace
}  // namespace tutti
