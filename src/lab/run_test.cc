#include "lab/run.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/scratch_folder.h"
#include "config/environment.h"

namespace tutti::lab {
namespace {

// What the workers of such a run would have in their environment beside what this process has.
using Kernels = std::vector<std::string>;
std::vector<std::string> environment_of(bool reproducible, const std::optional<Kernels>& kernels = {}) {
  const ScratchFolder folder;
  config::TrainConfig c;
  c.data = "synthetic";
  c.workers = 2;
  c.steps = 1;
  c.reproducible = reproducible;
  c.no_evaluate = true;
  c.out = (folder.path() / "run").string();
  auto run = train::prepare(c, {}, 2, "now");
  run.kernels = kernels;
  std::vector<std::string> environment;
  const auto look = [&](const launch::JobSpec& spec, const launch::Listener&) {
    environment = spec.environment;
    return launch::Outcome{.exit_code = 2, .line = "seen enough"};
  };
  const launch::Listener deaf{[](Rank, bool, const std::string&) {}, [](Rank, const nlohmann::json&) {}};
  run_training(run, "/no/program", deaf, pause_unless_interrupted, look);
  return environment;
}

TEST(RunTraining, WorkersOfAReproducibleRunAreToldWhichKernelsToTake) {
  const auto has = [](const std::vector<std::string>& environment, const char* one) {
    return std::ranges::find(environment, one) != environment.end();
  };
  for (const char* variable : {"MKL_CBWR", "OPENBLAS_NUM_THREADS"}) ::unsetenv(variable);
  EXPECT_TRUE(has(environment_of(true), "OPENBLAS_NUM_THREADS=1"));
  EXPECT_EQ(has(environment_of(true), "MKL_CBWR=AUTO,STRICT"), at::hasMKL());
  ::setenv("MKL_CBWR", "COMPATIBLE", 1);
  EXPECT_TRUE(has(environment_of(true), "MKL_CBWR=COMPATIBLE"));  // also on hosts that would not hear of it
  EXPECT_TRUE(environment_of(false).empty());
  ::unsetenv("MKL_CBWR");
}

// As bisect makes a run again.
TEST(RunTraining, WorkersHaveTheKernelsThatARunIsGivenAndNoOthers) {
  ::setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  for (const bool reproducible : {false, true}) {
    const auto environment = environment_of(reproducible, Kernels{"ATEN_CPU_CAPABILITY=default"});
    EXPECT_EQ(environment, config::only_kernels({"ATEN_CPU_CAPABILITY=default"}));
    EXPECT_NE(std::ranges::find(environment, "OPENBLAS_CORETYPE"), environment.end()) << "to be taken away";
  }
  ::unsetenv("OPENBLAS_CORETYPE");
}

}  // namespace
}  // namespace tutti::lab
