#include "train/plan.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/process.h"
#include "base/scratch_folder.h"
#include "engines/engines.h"
#include "train/measure.h"
#include "train/prepare.h"

namespace tutti::train {
namespace {

TEST(RunPlan, EpochsStepsAndGlobalBatchAgree) {
  config::TrainConfig c;
  c.workers = 2;
  c.batch = 128;
  c.epochs = 5;
  EXPECT_EQ(make_plan(c, 60'000).steps_per_epoch, 235);
  EXPECT_EQ(make_plan(c, 60'000).total_steps, 5 * 235);
  c.epochs = 0;
  EXPECT_EQ(make_plan(c, 60'000).total_steps, 235);
  c.steps = 7;
  c.global_batch = 100;
  EXPECT_EQ(make_plan(c, 60'000).total_steps, 7);
  EXPECT_EQ(make_plan(c, 60'000).part, 50);
}

TEST(RunPlan, MicroBatchesMakeTheBatchLarger) {
  config::TrainConfig c;
  c.workers = 2;
  c.batch = 50;
  c.accumulate = 3;
  c.scale_lr = true;
  c.warmup_steps = 0;
  const auto plan = make_plan(c, 3000);
  EXPECT_EQ(plan.part, 150);
  EXPECT_EQ(plan.micro_batch, 50);
  EXPECT_EQ(plan.steps_per_epoch, 10);
  EXPECT_DOUBLE_EQ(optim::rate(plan.schedule, 0), 6 * c.lr);
  c.global_batch = 60;
  EXPECT_EQ(make_plan(c, 3000).part, 30);
  EXPECT_EQ(make_plan(c, 3000).micro_batch, 10);
}

TEST(RunPlan, ADevicesPaceIsThreeForwardPassesOfTheBatch) {
  config::TrainConfig c;
  c.model = "resnet50";
  c.batch = 32;
  c.device_tflops = 2;
  const auto& model = models::find_model(c.model);
  const double pace = pace_of(c, model);
  EXPECT_DOUBLE_EQ(pace, 3 * model.flops_per_sample * 32 / 2e12 * 1000);
  c.classes = 10;
  EXPECT_DOUBLE_EQ(pace_of(c, model), pace);
  c.image_size = 32;  // what that computes is not known
  EXPECT_THROW(pace_of(c, model), ConfigError);
}

TEST(RunPlan, WhatIsSetForServersReachesThem) {
  config::TrainConfig c;
  c.strategy = "ps-ssp";
  c.workers = 5;
  c.servers = 3;
  c.staleness = 7;
  c.damp_stale = true;
  c.optimizer = "adamw";
  c.weight_decay = 0.25;
  c.timeout_s = 11;
  const auto ssp = tuning_of(c).servers;
  EXPECT_EQ(ssp.workers, 5);
  EXPECT_EQ(ssp.first_server, 5);
  EXPECT_EQ(ssp.servers, 3);
  EXPECT_EQ(ssp.policy.consistency, ps::Consistency::ssp);
  EXPECT_EQ(ssp.policy.workers, 5);
  EXPECT_EQ(ssp.policy.staleness, 7);
  EXPECT_TRUE(ssp.damp_stale);
  EXPECT_EQ(ssp.optimizer.kind, optim::Kind::adamw);
  EXPECT_EQ(ssp.optimizer.weight_decay, 0.25);
  EXPECT_EQ(ssp.timeout, std::chrono::seconds(11));
  EXPECT_EQ(ssp.role, ps::Role::update);
  EXPECT_TRUE(ssp.survives_workers);
  c.strategy = "ps-sync";
  c.damp_stale = false;
  c.server_role = "sum";
  c.backup_workers = 2;
  c.colocate = true;
  const auto sync = tuning_of(c).servers;
  EXPECT_EQ(sync.policy.consistency, ps::Consistency::sync);
  EXPECT_EQ(sync.policy.backup, 2);
  EXPECT_FALSE(sync.damp_stale);
  EXPECT_EQ(sync.role, ps::Role::mean);
  EXPECT_FALSE(sync.survives_workers) << "a server lives in a worker's process";
  c.colocate = false;
  c.backup_workers = 0;
  EXPECT_FALSE(tuning_of(c).servers.survives_workers) << "everybody's gradient is needed";
  c.local_aggregation = true;
  EXPECT_EQ(tuning_of(c).servers.workers, 1);
  EXPECT_EQ(tuning_of(c).servers.first_server, 5);
}

TEST(RunPlan, OneWorkerAHostPushesWhereTheyAddUp) {
  config::TrainConfig c;
  c.strategy = "ps-sync";
  c.workers = 4;
  c.servers = 1;
  const std::vector<int> in_turn = {0, 1, 0, 1, 0};
  EXPECT_EQ(tuning_of(c, in_turn).servers.workers, 4) << "nobody asked";
  c.local_aggregation = true;
  const auto servers = tuning_of(c, in_turn).servers;
  EXPECT_EQ(servers.workers, 2);
  EXPECT_EQ(servers.policy.workers, 2);
  EXPECT_EQ(servers.first_server, 4);
  EXPECT_TRUE(seen_by_servers(c, in_turn).empty()) << "as they are";
  const std::vector<int> in_blocks = {3, 3, 1, 1, 0};
  EXPECT_EQ(seen_by_servers(c, in_blocks), (std::vector{Rank{0}, Rank{2}, Rank{1}, Rank{3}, Rank{4}}));
}

config::TrainConfig four_workers_of_a_server(const ScratchFolder& folder) {
  config::TrainConfig c;
  c.model = "sdss-dnn";
  c.data = "synthetic";
  c.strategy = "ps-sync";
  c.workers = 4;
  c.steps = 1;
  c.out = (folder.path() / "run").string();
  return c;
}

// The last of them are servers.
TEST(RunPlan, WorkersThatOthersHaveStartedShareTheHostsThatTheyAreOn) {
  const ScratchFolder folder;
  const auto resolved = [&](const std::vector<int>& started_on) {
    return prepare(four_workers_of_a_server(folder), {}, std::nullopt, "now", started_on).setup.config;
  };
  const auto cores = static_cast<int>(allowed_cores().size());
  EXPECT_TRUE(resolved({0, 0, 1, 1, 2}).local_aggregation);
  EXPECT_EQ(resolved({0, 0, 1, 1, 2}).threads, std::max(1, cores / 2));
  EXPECT_EQ(resolved({0, 0, 1, 0, 0}).threads, std::max(1, cores / 3));
  EXPECT_FALSE(resolved({0, 1, 2, 3, 0}).local_aggregation) << "a host each";
  EXPECT_EQ(resolved({0, 1, 2, 3, 0}).threads, cores);
  EXPECT_FALSE(resolved({0, 0, 0, 0, 1}).local_aggregation) << "one host";
  EXPECT_EQ(resolved({0, 0, 0, 0, 1}).threads, std::max(1, cores / 4));
}

TEST(RunPlan, WorkersThatShareOneOfSeveralHostsPushAsOneUnlessTheyCannot) {
  const ScratchFolder folder;
  const auto resolved = [&](const auto& change) {
    auto c = four_workers_of_a_server(folder);
    c.emulate = "hosts=2,link=1gbit";
    change(c);
    return prepare(c, {}, 1, "now").setup.config.local_aggregation;
  };
  EXPECT_TRUE(resolved([](auto&) {}));
  EXPECT_TRUE(resolved([](auto& c) { c.server_role = "sum"; }));
  EXPECT_FALSE(resolved([](auto& c) { c.no_local_aggregation = true; }));
  EXPECT_FALSE(resolved([](auto& c) { c.emulate.clear(); })) << "one host";
  EXPECT_FALSE(resolved([](auto& c) { c.emulate = "link=1gbit"; })) << "a host each";
  EXPECT_FALSE(resolved([](auto& c) { c.workers = 2; })) << "a host each";
  EXPECT_FALSE(resolved([](auto& c) { c.strategy = "ps-async"; }));
  EXPECT_FALSE(resolved([](auto& c) { c.strategy = "allreduce"; }));
  EXPECT_TRUE(resolved([](auto& c) { c.emulate.clear(), c.hosts = "a:2,b:2"; }));
  EXPECT_FALSE(resolved([](auto& c) { c.emulate.clear(), c.hosts = "a:4,b:2"; })) << "b has none of them";
  EXPECT_FALSE(resolved([](auto& c) { c.backup_workers = 1; })) << "which leaves out single workers";
  EXPECT_FALSE(resolved([](auto& c) { c.on_nonfinite = "skip"; })) << "which needs whole gradients first";
  const auto with_tables = [](auto& c) { c.model = "wide-deep"; };
  EXPECT_FALSE(resolved(with_tables)) << "its rows are less than its tables";
  EXPECT_TRUE(resolved([&](auto& c) {
    with_tables(c);
    c.no_sparse = true;
  }));
}

// Only our engine makes groups of the workers of a host.
TEST(RunPlan, WorkersOfAHostPushEachForThemselvesWhereTheEngineCannotAddUpAmongThem) {
  const ScratchFolder folder;
  int usable = 0;
  for (const auto& engine : engines::engines()) {
    if (engine.why_not != nullptr && !engine.why_not().empty()) continue;
    ++usable;
    auto c = four_workers_of_a_server(folder);
    c.engine = engine.name;
    const std::vector<int> two_hosts = {0, 0, 1, 1, 0};
    const auto resolved = [&] { return prepare(c, {}, 1, "now", two_hosts).setup.config.local_aggregation; };
    EXPECT_EQ(resolved(), engine.joins_neighbours) << engine.name;
    EXPECT_EQ(engine.joins_neighbours, engine.name == "native");
    c.local_aggregation = true;
    if (engine.joins_neighbours) {
      EXPECT_TRUE(resolved());
      continue;
    }
    EXPECT_THROW(resolved(), ConfigError) << engine.name;
    const std::vector<int> one_host(5, 0);
    EXPECT_TRUE(prepare(c, {}, 1, "now", one_host).setup.config.local_aggregation)
        << "where all are one group";
  }
  EXPECT_GE(usable, 1);
}

TEST(RunPlan, OnlyWorkersThatWaitForNobodyCanBeSpared) {
  const auto survives = [](auto change) {
    config::TrainConfig c;
    c.strategy = "ps-async";
    c.workers = 2;
    change(c);
    return survives_workers(c);
  };
  EXPECT_TRUE(survives([](auto&) {}));
  EXPECT_FALSE(survives([](auto& c) { c.workers = 1; })) << "nobody would be left";
  EXPECT_FALSE(survives([](auto& c) { c.colocate = true; })) << "its server would be gone with it";
  EXPECT_FALSE(survives([](auto& c) { c.strategy = "ps-sync"; }));
  EXPECT_TRUE(survives([](auto& c) {
    c.strategy = "ps-sync";
    c.backup_workers = 1;
  }));
}

TEST(RunPlan, BatchLargerThanTheDataIsRefused) {
  config::TrainConfig c;
  c.batch = 101;
  EXPECT_THROW(make_plan(c, 100), ConfigError);
  c.batch = 51;
  c.workers = 2;
  EXPECT_THROW(make_plan(c, 100), ConfigError);
  c.batch = 50;
  EXPECT_EQ(make_plan(c, 100).steps_per_epoch, 1);
}

TEST(RunPlan, WarmUpIsAtMostAFifthOfTheRun) {
  config::TrainConfig c;
  c.scale_lr = true;
  c.workers = 4;
  c.batch = 100;
  c.steps = 50;
  EXPECT_EQ(make_plan(c, 60'000).schedule.warm_up.steps, 10);
  c.warmup_steps = 3;
  EXPECT_EQ(make_plan(c, 60'000).schedule.warm_up.steps, 3);
}

TEST(RunPlan, StepsBetweenDropsAreCountedInEpochs) {
  config::TrainConfig c;
  c.batch = 100;
  c.epochs = 9;
  c.lr = 0.8;
  c.schedule = "step";
  c.step_size = 3;
  c.gamma = 0.5;
  const auto plan = make_plan(c, 1000);
  EXPECT_EQ(optim::rate(plan.schedule, 29), 0.8);
  EXPECT_EQ(optim::rate(plan.schedule, 30), 0.4);
  EXPECT_EQ(optim::rate(plan.schedule, 89), 0.2);
}

TEST(RunPlan, CosineFallsOverTheRunUnlessItIsTold) {
  config::TrainConfig c;
  c.steps = 40;
  c.schedule = "cosine";
  EXPECT_EQ(make_plan(c, 1000).schedule.end, 40);
  c.schedule_steps = 100;
  EXPECT_EQ(make_plan(c, 1000).schedule.end, 100);
  c.schedule_steps = 30;
  EXPECT_THROW(make_plan(c, 1000), ConfigError);
  c.min_lr = 1e-5;
  EXPECT_EQ(optim::rate(make_plan(c, 1000).schedule, 35), 1e-5);
}

TEST(Quantile, IsByNearestRank) {
  EXPECT_EQ(quantile({}, 0.5), 0);
  EXPECT_EQ(quantile({5}, 0.9), 5);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0.5), 2);
  EXPECT_EQ(quantile({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.9), 9);
}

TEST(Due, FollowsTheEndOfAnEpochUnlessToldHowOften) {
  config::TrainConfig config;
  RunPlan plan;
  plan.steps_per_epoch = 10;
  const auto due = [&](std::int64_t before, std::int64_t now) {
    return due_after(config, plan, before, now);
  };
  EXPECT_FALSE(due(8, 9).anything());
  EXPECT_TRUE(due(9, 10).end_of_epoch && due(9, 10).checkpoint && due(9, 10).evaluation);
  EXPECT_TRUE(due(9, 12).end_of_epoch) << "a late worker has left out steps";
  config.checkpoint_every = 4;
  config.evaluate_every = 3;
  EXPECT_TRUE(due(7, 8).checkpoint && !due(7, 8).evaluation && !due(7, 8).end_of_epoch);
  EXPECT_TRUE(due(8, 9).evaluation && !due(8, 9).checkpoint);
  EXPECT_TRUE(due(9, 10).end_of_epoch && !due(9, 10).checkpoint && !due(9, 10).evaluation);
  config.no_evaluate = true;
  EXPECT_FALSE(due(8, 9).anything());
}

}  // namespace
}  // namespace tutti::train
