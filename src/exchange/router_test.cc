#include "exchange/router.h"

#include <gtest/gtest.h>

#include "collectives/native.h"
#include "net/inproc.h"

namespace tutti::exchange {
namespace {

constexpr ClusterFacts kCluster{
    .workers = 4, .servers = 2, .bytes_per_second = 1e9, .seconds_per_message = 2e-5};

TEST(Router, WhatIsNoTableGoesByAllReduceAndSaysItsSize) {
  const auto r = route({.name = "dense.weight", .bytes = 4'700'000}, kCluster);
  EXPECT_EQ(r.way, Way::all_reduce);
  EXPECT_EQ(r.reason, "dense: 4.7 MB");
}

TEST(Router, TableOfWhichLittleIsTouchedGoesToTheServers) {
  const auto r =
      route({.name = "words", .bytes = 256'000'000, .rows = 1'000'000, .density = 0.004}, kCluster);
  EXPECT_EQ(r.way, Way::servers);
  EXPECT_EQ(r.reason, "sparse: 0.4 % of rows");
  EXPECT_LT(r.servers_seconds, r.all_reduce_seconds);
}

TEST(Router, SharesBelowAPercentAreToldToTwoDigitsOthersToATenth) {
  const auto reason = [](double density) {
    return route({.name = "words", .bytes = 256'000'000, .rows = 1'000'000, .density = density}, kCluster)
        .reason;
  };
  EXPECT_EQ(reason(0.00123), "sparse: 0.12 % of rows");
  EXPECT_EQ(reason(0.01), "sparse: 1.0 % of rows");
}

TEST(Router, TableThatIsMostlyTouchedIsDense) {
  const auto r = route({.name = "words", .bytes = 256'000'000, .rows = 1'000'000, .density = 0.62}, kCluster);
  EXPECT_EQ(r.way, Way::all_reduce);
  EXPECT_EQ(r.reason, "dense: 62.0 % of rows");
}

TEST(Router, SmallTableIsNotWorthItsMessages) {
  const auto r = route({.name = "letters", .bytes = 2'000, .rows = 26, .density = 0.01}, kCluster);
  EXPECT_EQ(r.way, Way::all_reduce);
  EXPECT_EQ(r.reason, "small: 2.0 KB, messages cost more");
  // Of half of its rows 2 x 1/2 x 4/2 of the table would travel, more than the 2 x 3/4 of an all-reduce; of a
  // third, less.
  const auto reason = [](double density) {
    return route({.name = "letters", .bytes = 2'000, .rows = 26, .density = density}, kCluster).reason;
  };
  EXPECT_EQ(reason(0.5), "dense: 50.0 % of rows");
  EXPECT_EQ(reason(1.0 / 3), "small: 2.0 KB, messages cost more");
}

TEST(Router, FewerServersForMoreWorkersMakeRowsDearer) {
  const ParameterFacts table{.name = "words", .bytes = 64'000'000, .rows = 100'000, .density = 0.2};
  EXPECT_EQ(route(table, {.workers = 4, .servers = 4}).way, Way::servers);
  EXPECT_EQ(route(table, {.workers = 4, .servers = 1}).way, Way::all_reduce);
  EXPECT_EQ(route(table, {.workers = 1, .servers = 1}).way, Way::all_reduce);  // nobody to exchange with
}

TEST(Router, RoutesSurviveBeingWrittenDown) {
  const std::vector<Route> routes = {
      route({.name = "words", .bytes = 256'000'000, .rows = 1'000'000, .density = 0.004}, kCluster),
      route({.name = "dense.weight", .bytes = 4'700'000}, kCluster)};
  const nlohmann::json json = routes;
  EXPECT_EQ(json[0]["route"], "servers");
  const auto read = nlohmann::json::parse(json.dump()).get<std::vector<Route>>();
  EXPECT_EQ(nlohmann::json(read), json);
  EXPECT_EQ(by_servers(read), by_servers(routes));
}

TEST(Router, LinkIsMeasuredAndTheSameToEveryWorker) {
  for (const int workers : {2, 3}) {
    std::vector<ClusterFacts> seen(static_cast<std::size_t>(workers));
    net::run_as_threads(net::Medium::memory, workers, std::chrono::seconds(60), [&](net::Transport& t) {
      collectives::NativeEngine all(t);
      seen[static_cast<std::size_t>(to_int(t.rank()))] = measure_cluster(all, 1);
    });
    for (const auto& c : seen) {
      EXPECT_EQ(c.bytes_per_second, seen[0].bytes_per_second);
      EXPECT_GT(c.bytes_per_second, 1e6);
      EXPECT_EQ(c.seconds_per_message, seen[0].seconds_per_message);
      EXPECT_GT(c.seconds_per_message, 0);
      EXPECT_NE(c.seconds_per_message, ClusterFacts{}.seconds_per_message) << "that is what nobody measured";
    }
  }
}

}  // namespace
}  // namespace tutti::exchange
