// Whose a run folder is: what a run may remove there, what it must not, and who is kept out.
#include "train/run_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "checkpoint/checkpoint.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

class RunFolder : public ::testing::Test {
 protected:
  fs::path out() const { return folder_.path() / "run"; }

  train::Setup setup(bool overwrite = false, const std::string& resume = {}) const {
    train::Setup s;
    s.config.out = out().string();
    s.config.overwrite = overwrite;
    s.config.resume = resume;
    s.total_steps = 100;
    return s;
  }

  // One that goes on in its own folder.
  train::Setup resumed(std::int64_t step, std::int64_t total = 100) const {
    train::Setup s = setup(false, out().string());
    s.checkpoint = checkpoint::step_folder(out(), step).string();
    s.first_step = step;
    s.total_steps = total;
    return s;
  }

  void put(const fs::path& name, std::string_view text = "text") const {
    fs::create_directories((out() / name).parent_path());
    write_file_atomically(out() / name, text);
  }
  std::string text_of(const fs::path& name) const { return read_file(out() / name); }
  bool has(const fs::path& name) const { return fs::exists(out() / name); }

  void save(std::int64_t step) const {
    const float number = 1;
    const std::vector<checkpoint::TensorView> tensors = {
        {"w", DType::f32, {1}, std::as_bytes(std::span(&number, 1))}};
    checkpoint::save(out(), step, tensors, tensors, {{"config", config::TrainConfig()}});
  }

  // Files and folders with names that a run uses.
  void leave_a_run() const {
    for (const char* name :
         {"summary.json", "metrics.jsonl", "trace.json", "report.html", "samples-rank-0.jsonl",
          "samples/step-00000004.png", "tensorboard/events.out.tfevents.1"}) {
      put(name);
    }
    save(5);
    save(10);
  }

  static std::string refusal(const auto& call) {
    try {
      call();
    } catch (const ConfigError& e) {
      return e.what();
    }
    ADD_FAILURE() << "was not refused";
    return "";
  }

 private:
  ScratchFolder folder_;
};

TEST_F(RunFolder, IsMadeAndMarkedWhereThereIsNone) {
  EXPECT_TRUE(make_run_folder(setup()).empty());
  const auto marker = nlohmann::json::parse(text_of(kMarker));
  EXPECT_EQ(marker["format"], 1);
  EXPECT_EQ(marker["config"]["out"], out().string());
  EXPECT_TRUE(marker.contains("version"));
}

TEST_F(RunFolder, OfAnotherRunIsRefusedWithTheWaysOutAndStaysAsItIs) {
  make_run_folder(setup());
  leave_a_run();
  for (int again = 0; again < 2; ++again) {
    const auto line = refusal([&] { make_run_folder(setup()); });
    EXPECT_NE(line.find("--resume"), std::string::npos) << line;
    EXPECT_NE(line.find("--overwrite"), std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
  EXPECT_EQ(text_of("summary.json"), "text");
  EXPECT_EQ(text_of("metrics.jsonl"), "text");
  EXPECT_EQ(checkpoint::list(out()).size(), 2U);
}

TEST_F(RunFolder, IsRefusedWhereOthersHaveFiles) {
  put("notes.txt");
  const auto line = refusal([&] { make_run_folder(setup()); });
  EXPECT_NE(line.find("--resume"), std::string::npos) << line;
  EXPECT_NE(line.find("--overwrite"), std::string::npos) << line;
  EXPECT_FALSE(has(kMarker));
}

TEST_F(RunFolder, OverwritingRemovesWhatARunWroteAndNothingElse) {
  make_run_folder(setup());
  leave_a_run();
  fs::rename(checkpoint::step_folder(out(), 10), out() / "checkpoints" / "step-10.superseded");
  for (const char* name : {"notes.txt", "summary.json.backup", "samples/mine.png", "tensorboard/mine",
                           "checkpoints/best/model"}) {
    put(name);
  }
  make_run_folder(setup(true));
  for (const char* name :
       {"summary.json", "metrics.jsonl", "trace.json", "report.html", "samples-rank-0.jsonl",
        "samples/step-00000004.png", "tensorboard/events.out.tfevents.1", "checkpoints/step-5",
        "checkpoints/step-10.superseded"}) {
    EXPECT_FALSE(has(name)) << name;
  }
  for (const char* name : {"notes.txt", "summary.json.backup", "samples/mine.png", "tensorboard/mine",
                           "checkpoints/best/model"}) {
    EXPECT_TRUE(has(name)) << name;
  }
}

TEST_F(RunFolder, OverwritingReplacesNothingWhereNoMarkerSaysItIsARuns) {
  for (const char* name :
       {"summary.json", "metrics.jsonl", "trace.json", "report.html", "run.json", "samples-rank-3.jsonl",
        "checkpoints/step-5/manifest.json", "samples/a", "tensorboard/a"}) {
    put(name, "somebody else's");
    const auto line = refusal([&] { make_run_folder(setup(true)); });
    EXPECT_NE(line.find(fs::path(name).begin()->string()), std::string::npos) << line;
    EXPECT_EQ(text_of(name), "somebody else's");
    remove_tree(out());
  }
}

TEST_F(RunFolder, OverwritingTrainsBesideFilesThatHaveOtherNames) {
  put("notes.txt", "somebody else's");
  make_run_folder(setup(true));
  EXPECT_EQ(text_of("notes.txt"), "somebody else's");
  EXPECT_TRUE(has(kMarker));
}

TEST_F(RunFolder, OverwritingTheRunToGoOnWithIsRefused) {
  make_run_folder(setup());
  save(5);
  auto both = resumed(5);
  both.config.overwrite = true;
  EXPECT_NE(refusal([&] { make_run_folder(both); }).find("--overwrite"), std::string::npos);
  EXPECT_EQ(checkpoint::list(out()).size(), 1U);
}

TEST_F(RunFolder, ThatARunLeftWhileItBeganIsEmpty) {
  put(".tutti-lock", "1\n");
  put("run.json.partial-aB3dE5");
  EXPECT_NO_THROW(make_run_folder(setup()));
  EXPECT_FALSE(has("run.json.partial-aB3dE5"));
}

TEST_F(RunFolder, AutoClearsWhatARunLeftThatSavedNothing) {
  make_run_folder(setup());
  put("metrics.jsonl");
  put("checkpoints/step-5.partial/model.safetensors");
  make_run_folder(setup(false, "auto"));
  EXPECT_FALSE(has("metrics.jsonl"));
  EXPECT_FALSE(has("checkpoints/step-5.partial"));
}

TEST_F(RunFolder, AutoRemovesNothingWhereOthersHaveFiles) {
  put("metrics.jsonl", "somebody else's");
  refusal([&] { make_run_folder(setup(false, "auto")); });
  EXPECT_EQ(text_of("metrics.jsonl"), "somebody else's");
}

TEST_F(RunFolder, AutoDoesNotClearACheckpointThatHasComeMeanwhile) {
  make_run_folder(setup());
  save(5);  // after this run had looked and found none
  EXPECT_NE(refusal([&] { make_run_folder(setup(false, "auto")); }).find("meanwhile"), std::string::npos);
  EXPECT_EQ(checkpoint::list(out()).size(), 1U);
}

TEST_F(RunFolder, ThatIsResumedKeepsTheSeriesUpToItsStep) {
  make_run_folder(setup());
  leave_a_run();
  put("metrics.jsonl",
      "{\"event\":\"note\",\"text\":\"a\"}\n{\"event\":\"step\",\"step\":5}\n"
      "{\"event\":\"evaluation\",\"step\":5}\n{\"event\":\"step\",\"step\":6}\n{\"event\":\"st");
  put("samples/step-00000006.png");
  make_run_folder(resumed(5));
  EXPECT_EQ(text_of("metrics.jsonl"),
            "{\"event\":\"note\",\"text\":\"a\"}\n{\"event\":\"step\",\"step\":5}\n"
            "{\"event\":\"evaluation\",\"step\":5}\n");
  EXPECT_TRUE(has("samples/step-00000004.png"));
  EXPECT_FALSE(has("samples/step-00000006.png"));
  // What the shorter run concluded is not what this one will.
  for (const char* name : {"summary.json", "report.html", "trace.json"}) EXPECT_FALSE(has(name)) << name;
}

TEST_F(RunFolder, OfARunThatOnlyEndsForgetsWhatItsEndSays) {
  make_run_folder(setup());
  save(5);
  put("metrics.jsonl", "{\"event\":\"step\",\"step\":5}\n{\"event\":\"evaluation\",\"step\":5}\n");
  make_run_folder(resumed(5, 5));
  EXPECT_EQ(text_of("metrics.jsonl"), "{\"event\":\"step\",\"step\":5}\n");
}

TEST_F(RunFolder, LaterCheckpointsAreSetAsideAndSaid) {
  make_run_folder(setup());
  for (int again = 0; again < 2; ++again) {
    for (const int step : {5, 10, 15}) save(step);
    const auto notes = make_run_folder(resumed(5));
    ASSERT_EQ(notes.size(), 2U);
    EXPECT_NE(notes[0].find("step-10"), std::string::npos) << notes[0];
  }
  EXPECT_EQ(checkpoint::list(out()).size(), 1U);
  for (const char* name : {"step-10.superseded", "step-15.superseded", "step-10.superseded-2"}) {
    EXPECT_NO_THROW(checkpoint::load(out() / "checkpoints" / name)) << name;
  }
}

TEST_F(RunFolder, OfAnOlderVersionIsGoneOnWithAndMarked) {
  save(5);
  EXPECT_NO_THROW(make_run_folder(resumed(5)));
  EXPECT_TRUE(has(kMarker));
}

TEST_F(RunFolder, WhatKilledProcessesLeftIsSweptAndNothingElse) {
  const std::vector<std::string> ours = {"metrics.jsonl.partial-aB3dE5",
                                         "summary.json.partial-aB3dE5",
                                         "run.json.partial-aB3dE5",
                                         ".writable",
                                         "samples/step-00000004.png.partial-aB3dE5",
                                         "checkpoints/step-5.partial/model.safetensors"};
  const std::vector<std::string> others = {"summary.json.backup", "notes.txt.partial-aB3dE5", "a.partial",
                                           "checkpoints/best.partial", "checkpoints/step-x.partial"};
  make_run_folder(setup());
  save(4);
  for (const auto& name : ours) put(name);
  for (const auto& name : others) put(name);
  make_run_folder(resumed(4));
  for (const auto& name : ours) EXPECT_FALSE(has(name)) << name;
  EXPECT_FALSE(has("checkpoints/step-5.partial"));
  for (const auto& name : others) EXPECT_TRUE(has(name)) << name;
}

TEST_F(RunFolder, ACheckpointThatStoodAsideForItsSuccessorComesBack) {
  save(4);
  fs::rename(out() / "checkpoints" / "step-4", out() / "checkpoints" / "step-4.replaced");
  sweep_run_folder(out());
  EXPECT_NO_THROW(checkpoint::load(checkpoint::step_folder(out(), 4)));
}

TEST_F(RunFolder, ThatIsAFileOrCannotBeMadeIsRefused) {
  put("file");
  auto s = setup();
  s.config.out = (out() / "file").string();
  EXPECT_THROW(require_usable_folder(s.config), ConfigError);
  s.config.out = "/proc/nothing";
  EXPECT_THROW(make_run_folder(s), ConfigError);
  EXPECT_THROW(FolderLock::take("/proc/nothing"), ConfigError);
}

TEST_F(RunFolder, IsLockedForOneWhoIsNamedToOthers) {
  {
    const auto lock = FolderLock::take(out());
    const auto line = refusal([&] { FolderLock::take_if_there(out()); });
    EXPECT_NE(line.find(std::to_string(::getpid())), std::string::npos) << line;
    refusal([&] { FolderLock::take(out()); });
  }
  EXPECT_TRUE(FolderLock::take(out()));
}

// Between taking the lock and writing its number.
TEST_F(RunFolder, OfOneWhoHasNotSaidItsNumberIsWaitedForAndThenRefused) {
  fs::create_directories(out());
  const UniqueFd holder(::open((out() / kLockFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(::flock(holder.get(), LOCK_EX), 0);
  const auto line = refusal([&] { FolderLock::take(out()); });
  EXPECT_NE(line.find("another process trains there"), std::string::npos) << line;
}

TEST_F(RunFolder, WhereTheLockCannotBeWrittenIsRefused) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit no_file{0, 0};
    ::setrlimit(RLIMIT_FSIZE, &no_file);
    try {
      FolderLock::take(out());
    } catch (const ConfigError& e) {
      ::_exit(std::string_view(e.what()).find("cannot write") != std::string_view::npos ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "1: it was taken; 2: the reason is missing";
}

TEST_F(RunFolder, WithoutALockFileIsLookedAtAndLeftAlone) {
  EXPECT_FALSE(FolderLock::take_if_there(out()));
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(RunFolder, StaysLockedUntilTheLastProcessThatInheritedItIsGone) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::optional<FolderLock> lock = FolderLock::take(out());
  const pid_t worker = ::fork();
  if (worker == 0) {
    ::close(ends[1]);
    char byte = 0;
    (void)!::read(ends[0], &byte, 1);  // until the test closes its end
    ::_exit(0);
  }
  lock.reset();
  refusal([&] { FolderLock::take(out()); });
  ::close(ends[1]);
  ::waitpid(worker, nullptr, 0);
  EXPECT_TRUE(FolderLock::take(out()));
  ::close(ends[0]);
}

TEST_F(RunFolder, OfALauncherThatIsGoneIsWaitedFor) {
  std::optional<FolderLock> dying = FolderLock::take(out());
  const pid_t launcher = ::fork();
  if (launcher == 0) ::_exit(0);
  // Not waited for yet: its number is still taken, but it is gone.
  siginfo_t gone{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(launcher), &gone, WEXITED | WNOWAIT), 0);
  std::ofstream(out() / kLockFile) << launcher << "\n";
  std::thread worker([&] { dying.reset(); });
  EXPECT_NO_THROW(FolderLock::take(out()));
  worker.join();
  ::waitpid(launcher, nullptr, 0);
}

}  // namespace
}  // namespace tutti::train
