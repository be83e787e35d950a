#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/scratch_folder.h"
#include "config/environment.h"
#include "config/flags.h"

namespace tutti::config {
namespace {

struct Parsed {
  TrainConfig config;
  CLI::App app{"test"};
  std::string file;

  explicit Parsed(std::vector<std::string> arguments, const std::string& config_file = {}) {
    add_train_flags(app, config);
    std::ranges::reverse(arguments);
    app.parse(arguments);
    if (!config_file.empty()) apply_config_file(app, config_file);
  }
};

TEST(Config, FlagWinsOverEnvironmentWinsOverFile) {
  const ScratchFolder folder;
  const auto file = folder.path() / "c.toml";
  write_file_atomically(file, std::string_view("lr = 0.1\nbatch = 7\nseed = 5\nbucket-bytes = \"2M\"\n"));
  ::setenv("TUTTI_BATCH", "8", 1);
  ::setenv("TUTTI_LR", "0.2", 1);
  const Parsed p({"--lr", "0.3"}, file);
  ::unsetenv("TUTTI_BATCH");
  ::unsetenv("TUTTI_LR");
  EXPECT_EQ(p.config.lr, 0.3);
  EXPECT_EQ(p.config.batch, 8);
  EXPECT_EQ(p.config.seed, 5U);
  EXPECT_EQ(p.config.bucket_bytes, 2U << 20);
}

TEST(Config, SwitchesMeanTheSameInFlagEnvironmentAndFile) {
  const ScratchFolder folder;
  const auto file = folder.path() / "c.toml";
  write_file_atomically(file, std::string_view("no-evaluate = true\ntrace = false\n"));
  EXPECT_TRUE(Parsed({}, file).config.no_evaluate);
  EXPECT_FALSE(Parsed({}, file).config.trace);
  EXPECT_TRUE(Parsed({"--no-evaluate"}).config.no_evaluate);
  ::setenv("TUTTI_NO_EVALUATE", "1", 1);
  EXPECT_TRUE(Parsed({}).config.no_evaluate);
  ::setenv("TUTTI_NO_EVALUATE", "0", 1);
  EXPECT_FALSE(Parsed({}).config.no_evaluate);
  ::unsetenv("TUTTI_NO_EVALUATE");
}

TEST(Config, UntilIsAFigureAndAFiniteNumber) {
  TrainConfig c;
  EXPECT_FALSE(parse_until(c));
  c.until = "perplexity=1e2";
  EXPECT_EQ(parse_until(c)->figure, "perplexity");
  EXPECT_EQ(parse_until(c)->value, 100);
  for (const char* wrong : {"accuracy", "accuracy=", "=0.5", "accuracy=0.5x", "accuracy=nan"}) {
    c.until = wrong;
    EXPECT_THROW(validate(c), ConfigError) << wrong;
  }
  c.until = "accuracy=0.5";
  c.no_evaluate = true;
  EXPECT_THROW(validate(c), ConfigError);
}

TEST(Config, FileErrorsNameFileAndKey) {
  const ScratchFolder folder;
  const auto file = folder.path() / "c.toml";
  write_file_atomically(file, std::string_view("learning-rat = 0.1\n"));
  try {
    const Parsed p({}, file);
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("learning-rat"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("c.toml"), std::string::npos);
  }
  write_file_atomically(file, std::string_view("batch = many\n"));
  EXPECT_THROW(Parsed({}, file), ConfigError);
  write_file_atomically(file, std::string_view("[train]\nlr = 0.5\n"));
  EXPECT_THROW(Parsed({}, file), ConfigError);
  write_file_atomically(file, std::string_view("bucket-bytes = \"a lot\"\n"));
  EXPECT_THROW(Parsed({}, file), ConfigError);
  EXPECT_THROW(Parsed({}, "/no/such/file"), ConfigError);
}

TEST(Config, SurvivesTheWayThroughJson) {
  const Parsed p({"--workers", "3", "--scale-lr", "--no-evaluate", "--data", "mnist"});
  EXPECT_TRUE(p.config.no_evaluate);
  EXPECT_EQ(nlohmann::json(p.config).get<TrainConfig>(), p.config);
}

TEST(Config, NonsenseIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"workers", "0"},
                                                                  {"batch", "0"},
                                                                  {"lr", "-1"},
                                                                  {"lr", "nan"},
                                                                  {"timeout", "0"},
                                                                  {"heartbeat-timeout", "0.5"},
                                                                  {"heartbeat-timeout", "nan"},
                                                                  {"steps", "-3"},
                                                                  {"steps", "0"},
                                                                  {"epochs", "0"},
                                                                  {"global-batch", "0"},
                                                                  {"seed", "-1"},
                                                                  {"momentum", "nan"},
                                                                  {"momentum", "-0.5"},
                                                                  {"weight-decay", "nan"},
                                                                  {"epochs", "300000000000000000"},
                                                                  {"device", "tpu"},
                                                                  {"transport", "pigeon"},
                                                                  {"schedule", "linear"},
                                                                  {"step-size", "3"},
                                                                  {"step-size", "0"},
                                                                  {"gamma", "nan"},
                                                                  {"gamma", "0"},
                                                                  {"min-lr", "-1"},
                                                                  {"min-lr", "nan"},
                                                                  {"min-lr", "0.0001"},
                                                                  {"schedule-steps", "0"},
                                                                  {"schedule-steps", "9"},
                                                                  {"server-role", "judge"},
                                                                  {"alpha", "nan"},
                                                                  {"trust", "inf"},
                                                                  {"label-smoothing", "-0.1"},
                                                                  {"label-smoothing", "nan"},
                                                                  {"label-smoothing", "1"},
                                                                  {"accumulate", "0"},
                                                                  {"accumulate", "-2"},
                                                                  {"batch", "4000000000000000000"},
                                                                  {"clip-norm", "-1"},
                                                                  {"clip-norm", "nan"},
                                                                  {"clip-norm", "inf"},
                                                                  {"device-tflops", "-1"},
                                                                  {"device-tflops", "nan"},
                                                                  {"precision", "fp8"}};
  for (const auto& [flag, value] : cases) {
    try {
      validate(Parsed({"--" + flag + "=" + value}).config);
      FAIL() << flag;
    } catch (const std::runtime_error& e) {  // ConfigError, or the parser's own
      EXPECT_NE(std::string(e.what()).find("--" + flag), std::string::npos) << e.what();
    }
  }
}

TEST(Config, WhatExcludesEachOtherIsRefused) {
  EXPECT_THROW(validate(Parsed({"--pace=5", "--device-tflops=2"}).config), ConfigError);
  EXPECT_THROW(validate(Parsed({"--device-tflops=2", "--until=accuracy=0.9"}).config), ConfigError);
  EXPECT_THROW(validate(Parsed({"--no-checkpoint", "--checkpoint-every=5"}).config), ConfigError);
  validate(Parsed({"--no-checkpoint", "--device-tflops=2"}).config);
}

TEST(Config, NumbersOfAScheduleNeedTheirSchedule) {
  EXPECT_THROW(validate(Parsed({"--schedule=step"}).config), ConfigError);
  EXPECT_NO_THROW(validate(Parsed({"--schedule=step", "--step-size=3"}).config));
  EXPECT_NO_THROW(validate(Parsed({"--schedule=cosine", "--min-lr=0.0001"}).config));
  EXPECT_THROW(validate(Parsed({"--schedule=cosine", "--min-lr=0.1"}).config), ConfigError);
}

TEST(Config, FolderOfTheDataIsNotTakenForItsName) {
  ::setenv("TUTTI_DATA", "/data/here", 1);
  const Parsed p({});
  ::unsetenv("TUTTI_DATA");
  EXPECT_EQ(p.config.data, TrainConfig{}.data);
}

TEST(Config, DataIsLookedForWhereTheUserSaysFirst) {
  ::setenv("TUTTI_DATA", "/data/here", 1);
  EXPECT_EQ(data_roots().front(), "/data/here");
  EXPECT_EQ(data_home(), "/data/here");
  ::unsetenv("TUTTI_DATA");
  EXPECT_EQ(data_roots().back(), "/usr/share/datasets");
}

bool has(const std::vector<std::string>& settings, const char* one) {
  return std::ranges::find(settings, one) != settings.end();
}

TEST(Config, VariablesThatChooseKernelsAreNamedWhereTheyAreSet) {
  ::unsetenv("MKL_CBWR");
  ::setenv("OPENBLAS_CORETYPE", "Haswell", 1);
  const auto set = kernel_variables();
  EXPECT_TRUE(has(set, "OPENBLAS_CORETYPE=Haswell"));
  EXPECT_TRUE(has(reproducible_kernels(true, 1), "OPENBLAS_CORETYPE=Haswell"));
  ::unsetenv("OPENBLAS_CORETYPE");
  EXPECT_EQ(kernel_variables().size(), set.size() - 1);
}

TEST(Config, OfKernelsThatWereRecordedNoOthersAreLeft) {
  EXPECT_TRUE(has(only_kernels({}), "OPENBLAS_CORETYPE"));
  const auto kernels = only_kernels({"MKL_CBWR=COMPATIBLE"});
  EXPECT_EQ(kernels.front(), "MKL_CBWR=COMPATIBLE");
  EXPECT_FALSE(has(kernels, "MKL_CBWR"));
  EXPECT_TRUE(has(kernels, "ATEN_CPU_CAPABILITY")) << "without a value: to be taken away";
}

TEST(Config, MklIsToldToBeReproducibleUnlessItWasToldSomethingElse) {
  ::unsetenv("MKL_CBWR");
  EXPECT_TRUE(has(reproducible_kernels(true, 1), "MKL_CBWR=AUTO,STRICT"));
  EXPECT_FALSE(has(reproducible_kernels(false, 1), "MKL_CBWR=AUTO,STRICT"));
  ::setenv("MKL_CBWR", "COMPATIBLE", 1);
  EXPECT_TRUE(has(reproducible_kernels(true, 1), "MKL_CBWR=COMPATIBLE"));
  EXPECT_FALSE(has(reproducible_kernels(true, 1), "MKL_CBWR=AUTO,STRICT"));
  ::unsetenv("MKL_CBWR");
}

TEST(Config, OpenBlasIsToldHowManyThreadsUnlessItWasToldSomethingElse) {
  ::unsetenv("OPENBLAS_NUM_THREADS");
  EXPECT_TRUE(has(reproducible_kernels(false, 2), "OPENBLAS_NUM_THREADS=2"));
  EXPECT_TRUE(has(only_kernels({}), "OPENBLAS_NUM_THREADS"));
  ::setenv("OPENBLAS_NUM_THREADS", "4", 1);
  EXPECT_EQ(reproducible_kernels(false, 2), kernel_variables());
  ::unsetenv("OPENBLAS_NUM_THREADS");
}

}  // namespace
}  // namespace tutti::config
