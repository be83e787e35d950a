// `tutti slurm` without a SLURM; with one see on_slurm_test.py.
#include "cli/program_fixture.h"

namespace tutti {
namespace {

class SlurmCommand : public Program {
 protected:
  // `tutti slurm`, these flags, and a small training.
  std::vector<std::string> job(std::vector<std::string> flags, std::vector<std::string> more = {}) const {
    flags.insert(flags.begin(), "slurm");
    flags.emplace_back("--");
    for (auto& word : train_into_out({"--steps", "5"})) flags.push_back(word);
    for (auto& word : more) flags.push_back(std::move(word));
    return flags;
  }
};

TEST_F(SlurmCommand, JobFileGoesOnInTheRunFolderAndLogsBesideIt) {
  const Ended e = run(job(
      {"--nodes", "2", "--ntasks-per-node", "4", "--time", "2:00:00", "--sbatch=--mem=32G", "--dry-run"}));
  ASSERT_EQ(e.code, 0) << e.error;
  const std::string log = "\n#SBATCH --output=" + out().string() + ".slurm-%j.log\n";
  for (const std::string& words :
       {std::string("\n#SBATCH --job-name=run\n"), log, std::string("\n#SBATCH --mem=32G\n"),
        "'--out' '" + out().string() + "'", std::string("'--resume' 'auto'\n")}) {
    EXPECT_NE(e.out.find(words), std::string::npos) << words << e.out;
  }
  EXPECT_FALSE(std::filesystem::exists(out()));
}

TEST_F(SlurmCommand, WhatIsWrongIsSaidBeforeTheJobWaitsForItsTurn) {
  const std::vector<std::string> show = {"--nodes", "2", "--ntasks-per-node", "2", "--dry-run"};
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), show.begin(), show.end());
    return flags;
  };
  expect_refused(job({"--nodes", "2"}), "--dry-run");
  expect_refused(job(with({"--submit"})), "--dry-run");
  expect_refused(job({"--nodes", "0", "--dry-run"}), "--nodes");
  expect_refused(job(with({"--time", "tomorrow"})), "--time 'tomorrow'");
  expect_refused(job(with({"--time", "1", "--signal-before", "60"})), "--signal-before 60");
  expect_refused(job(with({"--partition", "a b"})), "--partition 'a b'");
  expect_refused(job(show, {"--steeps", "3"}), "--steeps");
  expect_refused(job(show, {"--overwrite"}), "--overwrite");
  expect_refused(job(show, {"--restarts", "2"}), "--restarts");
  expect_refused(job(show, {"--resume", "elsewhere"}), "--resume");
  expect_refused(job(show, {"--workers", "3"}), "--workers 3: 4 tasks");
  expect_refused(job({"--dry-run"}, {"--strategy", "ps-sync"}), "leave no worker");
  expect_refused({"slurm", "--dry-run", "--", "train", "--steps", "3"}, "--out DIR");
  expect_refused({"slurm", "--dry-run", "--", "bench"}, "not 'bench'");
}

TEST_F(SlurmCommand, WithoutSbatchNothingIsSubmitted) {
  const Ended e = run(job({"--submit"}), [] { ::setenv("PATH", "/nowhere", 1); });
  EXPECT_EQ(e.code, 2);
  EXPECT_NE(e.error.find("sbatch"), std::string::npos) << e.error;
}

}  // namespace
}  // namespace tutti
