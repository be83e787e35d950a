#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "checkpoint/show.h"
#include "checkpoint/small_checkpoint.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_under(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    names.push_back(entry.path().lexically_relative(folder).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string text_of(const std::exception& e) {
  return e.what();
}

// Runs the body in a child process that may write no file longer than `bytes`, as on a disk that is full.
int in_child_with_full_disk(rlim_t bytes, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
    if (::signal(SIGXFSZ, SIG_IGN) == SIG_ERR || ::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(99);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Checkpoint, RoundTripKeepsTensorsStepAndMeta) {
  const ScratchFolder run;
  const SmallCheckpoint small;
  const auto folder = small.save_to(run.path(), 12);
  EXPECT_EQ(folder, run.path() / "checkpoints" / "step-12");
  const auto loaded = load(folder);
  EXPECT_EQ(loaded.step, 12);
  EXPECT_EQ(loaded.meta.at("model"), "mlp");
  EXPECT_EQ(loaded.meta.at("lr"), 0.1);
  EXPECT_EQ(loaded.model.at("fc.weight").shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(parameters_digest(loaded.model.tensors()), parameters_digest(small.model()));
  EXPECT_EQ(parameters_digest(loaded.optimizer->tensors()), parameters_digest(small.optimizer()));
}

TEST(Checkpoint, FolderHoldsThreeFilesAndNothingElse) {
  const ScratchFolder run;
  SmallCheckpoint().save_to(run.path(), 1);
  EXPECT_EQ(names_under(run.path()),
            (std::vector<std::string>{"checkpoints", "checkpoints/step-1", "checkpoints/step-1/manifest.json",
                                      "checkpoints/step-1/model.safetensors",
                                      "checkpoints/step-1/optimizer.safetensors"}));
}

TEST(Checkpoint, OptimizerMayHaveNoState) {
  const ScratchFolder run;
  const auto folder = save(run.path(), 0, SmallCheckpoint().model(), {}, nullptr);
  EXPECT_TRUE(load(folder).optimizer->tensors().empty());
}

TEST(Checkpoint, SavingAStepAgainReplacesIt) {
  const ScratchFolder run;
  SmallCheckpoint small;
  small.save_to(run.path(), 3);
  small.bias[0] = 9;
  const auto folder = small.save_to(run.path(), 3);
  EXPECT_EQ(parameters_digest(load(folder).model.tensors()), parameters_digest(small.model()));
  EXPECT_EQ(names_under(run.path()).size(), 5);
}

TEST(Checkpoint, WhatAKilledProcessLeftIsIgnoredAndReplaced) {
  const ScratchFolder run;
  const auto partial = run.path() / "checkpoints" / "step-3.partial";
  fs::create_directories(partial);
  write_file_atomically(partial / "model.safetensors", std::string_view("half"));
  EXPECT_TRUE(list(run.path()).empty());
  EXPECT_NO_THROW(load(SmallCheckpoint().save_to(run.path(), 3)));
  EXPECT_EQ(names_under(run.path()).size(), 5);
}

TEST(Checkpoint, LatestGoesByNumberAndNeedsAManifest) {
  const ScratchFolder run;
  EXPECT_FALSE(latest(run.path()));
  for (const int step : {9, 100, 20}) SmallCheckpoint().save_to(run.path(), step);
  for (const auto* name :
       {"step-200", "step-0999", "step-", "step-x", "step-99999999999999999999", "other"}) {
    fs::create_directories(run.path() / "checkpoints" / name);
  }
  write_file_atomically(run.path() / "checkpoints" / "step-0999" / "manifest.json", std::string_view("{}"));
  std::vector<std::int64_t> steps;
  for (const auto& found : list(run.path())) steps.push_back(found.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{9, 20, 100}));
  EXPECT_EQ(latest(run.path())->path, step_folder(run.path(), 100));
}

TEST(Checkpoint, OpensAStepARunAndABareFile) {
  const ScratchFolder run;
  const SmallCheckpoint small;
  small.save_to(run.path(), 1);
  const auto folder = small.save_to(run.path(), 2);
  EXPECT_EQ(open_any(folder).step, 2);
  EXPECT_EQ(open_any(run.path()).step, 2);
  const auto bare = open_any(folder / "model.safetensors");
  EXPECT_FALSE(bare.step || bare.optimizer);
  EXPECT_EQ(bare.model.tensors().size(), 2);
}

TEST(Checkpoint, OpeningWhatIsNoneNamesThePath) {
  const ScratchFolder run;
  for (const auto& path : {run.path(), run.path() / "nowhere"}) {
    try {
      open_any(path);
      FAIL();
    } catch (const DataError& e) {
      EXPECT_NE(text_of(e).find(path.string()), std::string::npos) << e.what();
    }
  }
}

TEST(Checkpoint, FullDiskKeepsTheOldCheckpointAndLeavesNothing) {
  const ScratchFolder run;
  const SmallCheckpoint small;
  small.save_to(run.path(), 1);
  const auto before = names_under(run.path());
  const std::vector<float> big(2000);
  const std::vector<TensorView> optimizer{{"m", DType::f32, {2000}, std::as_bytes(std::span(big))}};
  // Too small for the model; for the optimizer after the model; and the same over a checkpoint of that step.
  for (const auto& [bytes, step] : {std::pair<rlim_t, int>{100, 2}, {1000, 2}, {1000, 1}}) {
    const int status = in_child_with_full_disk(bytes, [&] {
      try {
        save(run.path(), step, small.model(), optimizer, nullptr);
      } catch (const RunError& e) {
        return text_of(e).find(step_folder(run.path(), step).string()) == std::string::npos ? 2 : 0;
      }
      return 1;
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(names_under(run.path()), before);
    EXPECT_EQ(parameters_digest(open_any(run.path()).optimizer->tensors()),
              parameters_digest(small.optimizer()));
  }
}

TEST(Checkpoint, UnwritablePlaceIsNamed) {
  const ScratchFolder folder;
  write_file_atomically(folder.path() / "file", std::string_view("in the way"));
  try {
    SmallCheckpoint().save_to(folder.path() / "file", 5);
    FAIL();
  } catch (const RunError& e) {
    EXPECT_NE(text_of(e).find("file/checkpoints/step-5"), std::string::npos) << e.what();
  }
}

TEST(Checkpoint, MetaThatCouldNotBeReadAgainIsRefused) {
  const ScratchFolder run;
  nlohmann::json deep = 1;
  for (int i = 0; i < 100; ++i) deep = nlohmann::json::array({deep});
  EXPECT_THROW(save(run.path(), 1, {}, {}, deep), RunError);
  EXPECT_THROW(save(run.path(), 1, {}, {}, {{"name", "\xff"}}), RunError);
  EXPECT_EQ(names_under(run.path()), (std::vector<std::string>{"checkpoints"}));
}

TEST(Checkpoint, WhatDiffersOnAWorkerIsKeptAndVerified) {
  const ScratchFolder run;
  const SmallCheckpoint small;
  const std::array<float, 2> own{3, 4};
  const std::vector<TensorView> differs{{"fc.bias", DType::f32, {2}, std::as_bytes(std::span(own))}};
  save_replica(run.path(), 6, 1, differs);
  EXPECT_TRUE(list(run.path()).empty()) << "a worker's part is no checkpoint";
  const auto folder = save(run.path(), 6, small.model(), small.optimizer(), nullptr, std::array{1});
  EXPECT_FALSE(fs::exists(replica_path(run.path(), 6, 1).parent_path()));
  EXPECT_EQ(names_under(folder),
            (std::vector<std::string>{"manifest.json", "model.safetensors", "optimizer.safetensors",
                                      "replica-1.safetensors"}));
  EXPECT_FALSE(load_replica(folder, 0));
  const auto replica = load_replica(folder, 1);
  ASSERT_TRUE(replica);
  EXPECT_EQ(parameters_digest(replica->tensors()), parameters_digest(differs));
  EXPECT_NO_THROW(load(folder));

  const auto path = folder / "replica-1.safetensors";
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_THROW(load_replica(folder, 1), DataError);
  EXPECT_THROW(load(folder), DataError);
}

TEST(Checkpoint, ShowLinesUpItsNumbers) {
  const std::array<float, 3> plain{-30, 40, 0};
  const std::array<float, 300> missing = [] {
    std::array<float, 300> all{};
    all.fill(std::numeric_limits<float>::quiet_NaN());
    all[0] = 3;
    all[1] = 4;
    return all;
  }();
  const std::vector<TensorView> tensors{{"plain", DType::f32, {3}, std::as_bytes(std::span(plain))},
                                        {"missing", DType::f32, {30, 10}, std::as_bytes(std::span(missing))}};
  EXPECT_EQ(show(tensors),
            "tensor   type     shape     elements  bytes  min  max   mean  L2  NaN\n"
            "plain    float32  [3]              3     12  -30   40  3.333  50    0\n"
            "missing  float32  [30, 10]       300   1200    3    4    3.5   5  298\n"
            "2 tensors, 303 elements, 1.2 KiB\n");
}

TEST(Checkpoint, ShowAddsUpBytes) {
  const std::array<float, 3> numbers{1, 2, 3};
  const TensorView one{"one", DType::f32, {3}, std::as_bytes(std::span(numbers))};
  TensorView other = one;
  other.name = "other";
  const auto text = show(std::vector{one, other});
  EXPECT_TRUE(text.ends_with("\n2 tensors, 6 elements, 24 B\n")) << text;
}

TEST(Checkpoint, NamesAreQuotedWholeUpTo120Characters) {
  EXPECT_EQ(quoted(std::string(118, 'x')), '"' + std::string(118, 'x') + '"');
  EXPECT_EQ(quoted(std::string(119, 'x')), '"' + std::string(116, 'x') + "...");
}

TEST(Checkpoint, ShowTellsTensorsAndDigest) {
  const ScratchFolder run;
  const auto text = show(load(SmallCheckpoint().save_to(run.path(), 4)));
  for (const auto* part : {"step               4", "\"seed\":7", "parameters_sha256  ",
                           "fc.weight  float32  [3, 2]", "2 tensors, 8 elements", "fc.weight.momentum"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace tutti::checkpoint
