// One flipped bit: the program says in which step, on which rank and in which tensor, while it trains and
// afterwards.
#include <gtest/gtest.h>

#include <set>

#include "cli/program_fixture.h"
#include "config/environment.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class Bisect : public Program {
 protected:
  // Three workers, six steps, checkpoints every second one.
  Ended train_into(const std::string& folder, std::vector<std::string> more) {
    std::vector<std::string> all = {"train", "--data",    "mnist",      "--batch",
                                    "8",     "--workers", "3",          "--threads",
                                    "1",     "--steps",   "6",          "--checkpoint-every",
                                    "2",     "--out",     path(folder), "--no-evaluate"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  std::string path(const std::string& folder) const { return (root() / folder).string(); }

  // As JSON, with the exit code that belongs to it.
  nlohmann::json bisect(const std::string& a, const std::string& b) {
    const Ended e = run({"bisect", path(a), path(b), "--json", "--out", path("replays")});
    if (e.code > 1 || e.out.empty()) {
      ADD_FAILURE() << e.code << e.error;
      return nlohmann::json::object();
    }
    auto found = nlohmann::json::parse(e.out);
    EXPECT_EQ(e.code, found["identical"] ? 0 : 1) << e.out;
    EXPECT_FALSE(fs::exists(root() / "replays")) << "replays were left";
    return found;
  }

  void expect_bad_input(const std::string& a, const std::string& b, const std::string& word) {
    const Ended e = run({"bisect", path(a), path(b), "--out", path("replays")});
    EXPECT_EQ(e.code, 2) << e.out << e.error;
    EXPECT_NE(e.error.find(word), std::string::npos) << e.error;
    EXPECT_FALSE(fs::exists(root() / "replays"));
  }
};

TEST_F(Bisect, AFlippedBitOfAMeanStopsARunThatChecksItsReplicas) {
  const Ended e = train_into("flipped", {"--check-replicas", "1", "--flip-bit", "1:3:dense3.bias:2:22:mean"});
  EXPECT_EQ(e.code, 1) << e.out;
  EXPECT_EQ(std::ranges::count(e.error, '\n'), 1) << e.error;
  for (const char* word : {"step 3: ", "rank 1 is not as the other 2", "first in dense3.bias"}) {
    EXPECT_NE(e.error.find(word), std::string::npos) << word << ": " << e.error;
  }
  // What the two say of each other: nobody is in the minority.
  const Ended two = run({"train",
                         "--data",
                         "mnist",
                         "--batch",
                         "8",
                         "--workers",
                         "2",
                         "--threads",
                         "1",
                         "--steps",
                         "6",
                         "--strategy",
                         "ps-sync",
                         "--server-role",
                         "sum",
                         "--out",
                         path("two"),
                         "--check-replicas",
                         "2",
                         "--flip-bit",
                         "0:3:dense3.bias:2:22"});
  EXPECT_EQ(two.code, 1) << two.out;
  for (const char* word : {"step 4: ", " on rank 0, ", " on rank 1", "no side has more workers"}) {
    EXPECT_NE(two.error.find(word), std::string::npos) << word << ": " << two.error;
  }
}

TEST_F(Bisect, ReplicasThatAreTheSamePassTheCheck) {
  const Ended e = train_into("clean", {"--check-replicas", "1", "--strategy", "ps-sync"});
  EXPECT_EQ(e.code, 0) << e.error;
  expect_refused(train({"--strategy", "local-sgd", "--workers", "2", "--check-replicas", "5"}),
                 "replicas differ between synchronisations");
  expect_refused(train({"--strategy", "ps-async", "--workers", "2", "--check-replicas", "5"}),
                 "workers do not keep step");
  expect_refused(train({"--strategy", "ps-sync", "--workers", "2", "--flip-bit", "0:1:dense3.bias:0:0"}),
                 "use :gradient");
  expect_refused(train({"--flip-bit", "0:1:dense3.bias"}), "--flip-bit must be");
  const Ended unknown = train_into("unknown", {"--flip-bit", "0:1:fc9.weight:0:0"});
  EXPECT_EQ(unknown.code, 2) << unknown.error;
  EXPECT_NE(unknown.error.find("fc9.weight"), std::string::npos) << unknown.error;
}

TEST_F(Bisect, ADifferenceBeforeTheExchangeIsNamedToItsElement) {
  ASSERT_EQ(train_into("clean", {}).code, 0);
  ASSERT_EQ(train_into("again", {}).code, 0);
  EXPECT_TRUE(bisect("clean", "again")["identical"]);

  ASSERT_EQ(train_into("gradient", {"--flip-bit", "1:3:conv2.weight:41:20:gradient"}).code, 0);
  const auto before = bisect("clean", "gradient");
  EXPECT_EQ(before["equal_until"], 2);
  EXPECT_EQ(before["differ_from"], 4);
  EXPECT_EQ(before["step"], 3);
  EXPECT_EQ(before["stage"], "gradient");
  EXPECT_EQ(before["who"], nlohmann::json({"rank-1"}));
  EXPECT_EQ(before["tensor"], "conv2.weight");
  // By its number in row-major order, though the network keeps its channels last.
  EXPECT_EQ(before["element"], 41);
  EXPECT_EQ(before["index"], "[0, 4, 1, 2]");
  EXPECT_EQ(before["ulps"], 1 << 20);
  EXPECT_EQ(before["differing"], 1);
  EXPECT_EQ(before["settings"].size(), 1U) << before;

  const Ended shown = run({"bisect", path("clean"), path("gradient"), "--out", path("replays"), "--keep"});
  EXPECT_EQ(shown.code, 1);
  for (const char* word :
       {"step       3", "the gradient before the exchange, of rank 1", "conv2.weight", "1048576 ULPs"}) {
    EXPECT_NE(shown.out.find(word), std::string::npos) << word << ": " << shown.out;
  }
  EXPECT_TRUE(fs::exists(root() / "replays"));
}

TEST_F(Bisect, ADifferenceBehindTheExchangeIsFoundThoughCheckpointsDoNotHoldIt) {
  ASSERT_EQ(train_into("clean", {}).code, 0);
  // Rank 0's parameters, and with them checkpoints, are wrong one step later than rank 1's: that of step 4 is
  // still the clean one's, and a replay from there would find nothing.
  EXPECT_EQ(train_into("mean", {"--flip-bit", "1:4:dense3.bias:2:22"}).code, 1)
      << "replicas differ at the end";
  const auto after = bisect("clean", "mean");
  EXPECT_EQ(after["equal_until"], 4);
  EXPECT_EQ(after["differ_from"], 6);
  EXPECT_EQ(after["step"], 4);
  EXPECT_EQ(after["stage"], "mean");
  EXPECT_EQ(after["who"], nlohmann::json({"rank-1"}));
  EXPECT_EQ(after["tensor"], "dense3.bias");
  EXPECT_EQ(after["element"], 2);
  EXPECT_EQ(after["ulps"], 1 << 22);
  EXPECT_NE(after["remark"].get<std::string>().find("another replica"), std::string::npos) << after;
}

TEST_F(Bisect, ARunThatWasStoppedByItsCheckIsMadeAgain) {
  ASSERT_EQ(train_into("clean", {}).code, 0);
  ASSERT_EQ(train_into("flipped", {"--check-replicas", "1", "--flip-bit", "2:3:dense3.bias:2:22"}).code, 1);
  const auto found = bisect("clean", "flipped");
  EXPECT_EQ(found["equal_until"], 2);
  EXPECT_EQ(found["step"], 3);
  EXPECT_EQ(found["stage"], "mean");
  EXPECT_EQ(found["who"], nlohmann::json({"rank-2"}));
}

// Its settings do not say what happened to it: a bit was flipped before it was resumed, and all that is left
// of that is its result.
TEST_F(Bisect, ADifferenceThatDoesNotComeAgainIsToldByCheckpointsAlone) {
  const auto train = [&](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train", "--data",    "mnist", "--batch",
                                    "8",     "--threads", "1",     "--no-evaluate"};
    if (!folder.empty()) all.insert(all.end(), {"--out", path(folder), "--checkpoint-every", "3"});
    all.insert(all.end(), more.begin(), more.end());
    return run(all).code;
  };
  ASSERT_EQ(train("clean", {"--steps", "3"}), 0);
  ASSERT_EQ(train("struck", {"--steps", "2", "--flip-bit", "0:2:dense3.bias:2:22:gradient"}), 0);
  ASSERT_EQ(train("", {"--resume", path("struck"), "--steps", "3", "--flip-bit", ""}), 0);
  fs::remove_all(root() / "struck" / "checkpoints" / "step-2");
  const auto found = bisect("clean", "struck");
  EXPECT_EQ(found["step"], 3);
  EXPECT_EQ(found["stage"], "checkpoint");
  EXPECT_EQ(found["side"], "known from what was saved alone: made again from the beginning, the two agree");
  EXPECT_NE(found["remark"].get<std::string>().find("they end as A did: B was disturbed"), std::string::npos)
      << found;
  EXPECT_GT(found["differing"], 0);
}

TEST_F(Bisect, ConfigurationsAreTrainedFirst) {
  const auto write = [&](const std::string& name, const std::string& more) {
    std::ofstream(root() / name)
        << "data = \"mnist\"\nmodel = \"mnist-cnn\"\nbatch = 8\nsteps = 2\nthreads = 1\n"
        << "no-evaluate = true\n"
        << more;
  };
  write("a.toml", "");
  write("b.toml", "seed = 2\n");
  const Ended e = run({"bisect", path("a.toml"), path("b.toml"), "--out", path("both"), "--json"});
  ASSERT_EQ(e.code, 1) << e.error;
  const auto found = nlohmann::json::parse(e.out);
  EXPECT_EQ(found["settings"], nlohmann::json({"seed: 1 against 2"}));
  EXPECT_EQ(found["step"], 0);
  EXPECT_EQ(found["side"], "the parameters that the runs begin with, on rank 0");
  EXPECT_EQ(found["tensor"], "conv1.weight");
  EXPECT_TRUE(fs::exists(root() / "both" / "a" / "summary.json"));
}

TEST_F(Bisect, WhatCannotBeComparedIsRefused) {
  ASSERT_EQ(train_into("clean", {}).code, 0);
  expect_bad_input("clean", "nowhere", "nowhere: no such folder");
  fs::create_directory(root() / "empty");
  expect_bad_input("empty", "clean", "no run folder");
  ASSERT_EQ(run({"train", "--data", "synthetic", "--model", "mlp", "--batch", "8", "--steps", "2", "--out",
                 path("other"), "--no-evaluate"})
                .code,
            0);
  expect_bad_input("clean", "other", "different models");
  ASSERT_EQ(
      run({"train", "--data", "mnist", "--batch", "8", "--steps", "3", "--out", path("odd"), "--no-evaluate"})
          .code,
      0);
  expect_bad_input("clean", "odd", "no checkpoint of the same step");
  ASSERT_EQ(train_into("apart", {"--strategy", "ps-async"}).code, 0);
  expect_bad_input("clean", "apart", "do not keep step");
}

TEST_F(Bisect, WithShardsRunsOfOtherWorkersAndStrategiesAreComparedShardByShard) {
  const auto reproducible = [&](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train",
                                    "--data",
                                    "mnist",
                                    "--reproducible",
                                    "--global-batch",
                                    "16",
                                    "--steps",
                                    "6",
                                    "--checkpoint-every",
                                    "2",
                                    "--out",
                                    path(folder),
                                    "--no-evaluate"};
    all.insert(all.end(), more.begin(), more.end());
    const Ended e = run(all);
    EXPECT_EQ(e.code, 0) << e.error;
  };
  reproducible("two", {"--strategy", "allreduce", "--workers", "2"});
  reproducible("servers", {"--strategy", "ps-sync", "--workers", "3"});
  EXPECT_EQ(bisect("two", "servers")["identical"], true);
  // Rank 1 of three has shards 3, 4 and 5.
  reproducible("flipped",
               {"--strategy", "ring", "--workers", "3", "--flip-bit", "1:3:dense3.bias:2:22:gradient"});
  const Ended e = run({"bisect", path("two"), path("flipped"), "--out", path("replays")});
  EXPECT_EQ(e.code, 1) << e.error;
  for (const char* words :
       {"step       3\n",
        "the gradient before the exchange, of shard-3, computed by rank 0 in A and rank 1 in B\n",
        "dense3.bias"}) {
    EXPECT_NE(e.out.find(words), std::string::npos) << words << ": " << e.out;
  }
}

// What differs lies before a resume with another number of workers, of which run.json speaks.
TEST_F(Bisect, AnElasticRunIsMadeAgainByTheWorkersThatItHadThen) {
  const auto train = [&](const std::vector<std::string>& how, std::vector<std::string> more) {
    more.insert(more.begin(), how.begin(), how.end());
    more.insert(more.begin(), {"train", "--no-evaluate"});
    const Ended e = run(more);
    EXPECT_EQ(e.code, 0) << e.error;
  };
  for (const std::string workers : {"1", "3"}) {
    for (const std::string folder : {"clean", "flipped"}) {
      train({"--data", "mnist", "--reproducible", "--global-batch", "16", "--checkpoint-every", "2"},
            {"--workers", "2", "--steps", "4", "--out", path(folder), "--overwrite", "--flip-bit",
             folder == "flipped" ? "1:3:dense3.bias:2:22:gradient" : ""});
    }
    train({"--resume", path("flipped")}, {"--workers", workers, "--steps", "6", "--flip-bit", ""});
    const auto found = bisect("clean", "flipped");
    EXPECT_EQ(found["equal_until"], 2) << workers;
    EXPECT_EQ(found["step"], 3) << workers;
    EXPECT_EQ(found["tensor"], "dense3.bias") << workers;
    // Rank 1 of two has shards 4 to 7.
    EXPECT_EQ(found["who"], nlohmann::json({"shard-4"})) << workers;
    EXPECT_EQ(found["element"], 2) << workers;
  }
}

#ifdef TUTTI_MPIEXEC
// Replays are no processes of mpirun.
TEST_F(Bisect, RunsOfMpiAreMadeAgainWithoutIt) {
  const auto by_mpi = [&](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> all = {TUTTI_MPIEXEC, "-n",      "2",          Running::program(),
                                    "train",       "--data",  "mnist",      "--threads",
                                    "1",           "--steps", "4",          "--checkpoint-every",
                                    "2",           "--out",   path(folder), "--no-evaluate"};
    all.insert(all.end(), more.begin(), more.end());
    const Ended e = run({}, [&] {
      for (const char* name :
           {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"})
        ::setenv(name, "1", 1);
      std::vector<char*> argv;
      for (auto& a : all) argv.push_back(a.data());
      argv.push_back(nullptr);
      ::execv(TUTTI_MPIEXEC, argv.data());
    });
    ASSERT_EQ(e.code, 0) << e.error;
  };
  const std::vector<std::string> transport = {"--transport", "mpi", "--batch", "8"};
  const std::vector<std::string> engine = {"--engine", "mpi", "--reproducible", "--global-batch", "16"};
  for (const auto& how : {transport, engine}) {
    auto flipped = how;
    flipped.insert(flipped.end(), {"--flip-bit", "1:3:dense3.bias:2:20:gradient", "--overwrite"});
    auto clean = how;
    clean.emplace_back("--overwrite");
    by_mpi("clean", clean);
    by_mpi("flipped", flipped);
    const auto found = bisect("clean", "flipped");
    EXPECT_EQ(found["equal_until"], 2) << how[0];
    EXPECT_EQ(found["step"], 3) << how[0];
    EXPECT_EQ(found["stage"], "gradient") << how[0];
    EXPECT_EQ(found["tensor"], "dense3.bias") << how[0];
  }
  by_mpi("own", {"--engine", "mpi", "--batch", "8"});
  expect_bad_input("own", "own", "only with --reproducible");
}
#endif

// As if the other had been made by another libtorch: what a checkpoint says of itself is not replayed.
TEST_F(Bisect, WhatComputedTheRunsIsTheLikelyReason) {
  ASSERT_EQ(train_into("clean", {}).code, 0);
  const auto elsewhere = [&](const std::string& threads) {
    return run({"train", "--data", "mnist", "--batch", "8", "--workers", "3", "--threads", threads, "--lr",
                "0.02", "--steps", "2", "--out", path("elsewhere"), "--checkpoint-every", "2",
                "--no-evaluate", "--overwrite"});
  };
  ASSERT_EQ(elsewhere("2").code, 0);
  EXPECT_EQ(bisect("clean", "elsewhere")["arithmetic"], nlohmann::json({"threads: 1 against 2"}));
  ASSERT_EQ(elsewhere("1").code, 0);
  EXPECT_EQ(bisect("clean", "elsewhere")["arithmetic"], nlohmann::json::array());
}

// Whoever calls bisect has kernels of their own: a run is made again with those that it had.
TEST_F(Bisect, RunsAreMadeAgainWithTheKernelsThatTheyHad) {
  ASSERT_EQ(train_into("usual", {}).code, 0);
  ::setenv("ATEN_CPU_CAPABILITY", "default", 1);
  const Ended other = train_into("other", {"--seed", "2"});
  ::setenv("ATEN_CPU_CAPABILITY", "avx2", 1);
  const Ended e = run({"bisect", path("usual"), path("other"), "--out", path("replays"), "--keep"});
  ::unsetenv("ATEN_CPU_CAPABILITY");
  ASSERT_EQ(other.code, 0) << other.error;
  ASSERT_EQ(e.code, 1) << e.error;
  int replays = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root() / "replays")) {
    if (entry.path().filename() != "manifest.json") continue;
    const auto manifest = nlohmann::json::parse(read_file(entry.path()));
    const bool of_other = entry.path().string().find("/B-") != std::string::npos;
    // The environment may name kernels of other libraries, too (OPENBLAS_CORETYPE, say); they stay as they
    // were.
    const auto here = config::kernel_variables();
    std::set<std::string> expected(here.begin(), here.end());
    if (of_other) expected.insert("ATEN_CPU_CAPABILITY=default");
    EXPECT_EQ(manifest["meta"]["arithmetic"]["kernels"].get<std::set<std::string>>(), expected)
        << entry.path();
    ++replays;
  }
  EXPECT_GT(replays, 1);
}

}  // namespace
}  // namespace tutti
