#include "launch/slurm.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "launch/spawn.h"

namespace tutti::launch {
namespace {

using std::chrono::seconds;

constexpr auto kPatience = seconds(60);

SlurmJob small_job() {
  return {.name = "two",
          .nodes = 2,
          .tasks_per_node = 4,
          .time = "1:00:00",
          .log = "/logs/two-%j.log",
          .folder = "/home/me",
          .command = {"/usr/bin/tutti", "train"}};
}

std::string refusal(const SlurmJob& job) {
  try {
    job_file(job);
    return "";
  } catch (const ConfigError& e) {
    return e.what();
  }
}

TEST(SlurmTime, IsReadAsSbatchReadsIt) {
  EXPECT_EQ(slurm_time("90"), std::chrono::minutes(90));
  EXPECT_EQ(slurm_time("1:30"), seconds(90));
  EXPECT_EQ(slurm_time("48:00:00"), std::chrono::hours(48));
  EXPECT_EQ(slurm_time("2-0"), std::chrono::hours(48));
  EXPECT_EQ(slurm_time("1-12:30"), std::chrono::minutes(36 * 60 + 30));
  EXPECT_EQ(slurm_time("1-12:30:15"), seconds((36 * 60 + 30) * 60 + 15));
  for (const char* wrong : {"", "0", "two hours", "1:2:3:4", "-5", "1-", "5 ", "99999999999999999999"}) {
    EXPECT_THROW(slurm_time(wrong), ConfigError) << wrong;
  }
}

TEST(SlurmJobFile, AsksForWhatWasSaid) {
  SlurmJob job = small_job();
  job.partition = "long";
  job.account = "physics";
  job.options = {"--mem=32G", "--gres=gpu:2"};
  const auto text = job_file(job);
  for (const char* line :
       {"#!/bin/bash\n", "\n#SBATCH --job-name=two\n", "\n#SBATCH --nodes=2\n",
        "\n#SBATCH --ntasks-per-node=4\n", "\n#SBATCH --time=1:00:00\n", "\n#SBATCH --partition=long\n",
        "\n#SBATCH --account=physics\n", "\n#SBATCH --signal=TERM@120\n", "\n#SBATCH --requeue\n",
        "\n#SBATCH --open-mode=append\n", "\n#SBATCH --output=/logs/two-%j.log\n", "\n#SBATCH --mem=32G\n",
        "\n#SBATCH --gres=gpu:2\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_EQ(job_file(small_job()).find("--partition"), std::string::npos) << "the default is SLURM's";
}

TEST(SlurmJobFile, RefusesWhatSlurmWouldReadAsSomethingElse) {
  const auto with = [](const std::function<void(SlurmJob&)>& change) {
    SlurmJob job = small_job();
    change(job);
    return refusal(job);
  };
  EXPECT_EQ(refusal(small_job()), "");
  EXPECT_NE(with([](SlurmJob& j) { j.name = "a b"; }).find("--job-name 'a b'"), std::string::npos);
  EXPECT_NE(with([](SlurmJob& j) { j.name = "--x"; }).find("--job-name"), std::string::npos);
  EXPECT_NE(with([](SlurmJob& j) { j.partition = "x\n#SBATCH --nodes=99"; }).find("--partition"),
            std::string::npos);
  EXPECT_NE(with([](SlurmJob& j) { j.account = "x#y"; }).find("--account"), std::string::npos);
  EXPECT_NE(with([](SlurmJob& j) { j.log = "/a\\b"; }).find("--log"), std::string::npos);
  EXPECT_NE(with([](SlurmJob& j) { j.options = {"mem=3"}; }).find("--sbatch"), std::string::npos);
  EXPECT_NE(with([](SlurmJob& j) { j.time = "soon"; }).find("--time"), std::string::npos);
  EXPECT_NE(with([](SlurmJob& j) { j.signal_before = seconds(3600); }).find("--signal-before 3600"),
            std::string::npos);
}

// The file as bash runs it, with stand-ins for SLURM's programs that say what they were given.
class JobFileInBash : public ::testing::Test {
 protected:
  void stand_in(const std::string& name, const std::string& script) const {
    const auto path = folder_.path() / name;
    std::ofstream(path) << "#!/bin/bash\n" << script << "\n";
    ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  }
  Ran run(const SlurmJob& job) const {
    const auto file = folder_.path() / "job";
    std::ofstream(file) << job_file(job);
    return run_to_end(
        "/bin/bash", {file},
        {.environment = {"PATH=" + folder_.path().string() + ":/usr/bin:/bin", "SLURM_JOB_ID=17"}},
        kPatience);
  }
  ScratchFolder folder_;
};

TEST_F(JobFileInBash, EveryWordArrivesAsItWasWritten) {
  stand_in("srun", R"(shift 2; printf '<%s>' "$PWD" "$@")");
  SlurmJob job = small_job();
  job.folder = folder_.path() / "a folder's $(name)";
  std::filesystem::create_directory(job.folder);
  job.command = {"tutti", "", "two words", "it's", "$HOME `id` \\ \" !* ~", "a\nb", "--out=x;rm"};
  std::string expected = "<" + job.folder + ">";
  for (const auto& word : job.command) expected += "<" + word + ">";
  const Ran ran = run(job);
  EXPECT_EQ(ran.out, expected) << ran.error;
  EXPECT_EQ(ran.exit_code, 0);
}

TEST_F(JobFileInBash, OnlyARunThatWasToldToStopIsQueuedAgain) {
  stand_in("scontrol", R"(printf '%s ' "$@")");
  SlurmJob job = small_job();
  job.folder = folder_.path();
  for (const int status : {0, 1, 2, 137, 143}) {
    stand_in("srun", "exit " + std::to_string(status));
    const Ran ran = run(job);
    EXPECT_EQ(ran.exit_code, status);
    EXPECT_EQ(ran.out, status == 143 ? "requeue 17 " : "") << status;
  }
}

TEST_F(JobFileInBash, FolderThatIsGoneEndsTheJob) {
  stand_in("srun", "echo trained");
  SlurmJob job = small_job();
  job.folder = folder_.path() / "nowhere";
  const Ran ran = run(job);
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(ran.out, "");
}

TEST_F(JobFileInBash, IsHandedToSbatchWhole) {
  const auto copy = folder_.path() / "copy";
  stand_in("sbatch", R"([[ $1 == --parsable ]] && cat "$2" >)" + copy.string() + "; echo '17;cluster'");
  const auto text = job_file(small_job());
  EXPECT_EQ(submit(folder_.path() / "sbatch", text), "17");
  EXPECT_EQ(read_file(copy), text);
}

TEST_F(JobFileInBash, SbatchsOwnWordsSayWhyItWasRefused) {
  stand_in("sbatch", "echo 'sbatch: error: invalid partition' >&2; exit 1");
  try {
    submit(folder_.path() / "sbatch", "");
    FAIL();
  } catch (const RunError& e) {
    EXPECT_NE(std::string(e.what()).find("invalid partition"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tutti::launch
