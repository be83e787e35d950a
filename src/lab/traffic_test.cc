#include "lab/traffic.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"

namespace tutti::lab {
namespace {

constexpr double kModel = 100 << 20;
// Payload of a frame, and what a header adds to it.
constexpr double kFrame = 1514.0 / 1448;
// Acknowledgements are small.
constexpr double kNearly = 0.01;

RunShape shape(const char* strategy, int workers, int servers = 0, bool colocate = false) {
  return {.strategy = strategy,
          .workers = workers,
          .servers = servers,
          .colocate = colocate,
          .parameter_bytes = kModel,
          .steps = 10};
}

TEST(Traffic, ARingSendsTwiceItsPartsAStepAndTheWeightsDownAChain) {
  const auto hosts = predict_traffic(shape("ring", 4));
  ASSERT_EQ(hosts.size(), 4U);
  const double steps = 10 * 1.5 * kModel * kFrame;
  EXPECT_NEAR(hosts[1].bytes_sent / (steps + kModel * kFrame), 1, kNearly);
  EXPECT_NEAR(hosts[3].bytes_sent / steps, 1, kNearly);  // the chain's end
  EXPECT_NEAR(hosts[1].packets_sent / (hosts[1].bytes_sent / 1514), 1, 0.03);
}

TEST(Traffic, AServerSendsAndReceivesForAllItsWorkers) {
  const auto one = predict_traffic(shape("ps-sync", 4, 1));
  ASSERT_EQ(one.size(), 5U);
  EXPECT_NEAR(one[4].bytes_sent / (kFrame * kModel * (4 * 12 + 1)), 1, kNearly);
  EXPECT_NEAR(one[4].bytes_received / (kFrame * kModel * (4 * 10 + 1)), 1, kNearly);
  const auto two = predict_traffic(shape("ps-sync", 4, 2));
  EXPECT_DOUBLE_EQ(two[4].bytes_sent * 2, one[4].bytes_sent);
}

TEST(Traffic, WhatStaysOnAHostPassesNoLink) {
  const auto hosts = predict_traffic(shape("ps-sync", 2, 2, true));
  ASSERT_EQ(hosts.size(), 2U);
  // Half of its gradients, and half of the other's parameters.
  EXPECT_NEAR(hosts[1].bytes_sent / (kFrame * kModel * (10 * 0.5 + 13 * 0.5)), 1, kNearly);
  for (const auto& host : predict_traffic(shape("ring", 1))) EXPECT_EQ(host.bytes_sent, 0);
}

TEST(Traffic, WhatIsSentIsReceived) {
  for (const auto& s : {shape("ring", 5), shape("allreduce", 3), shape("reduce-broadcast", 4),
                        shape("ps-sync", 3, 2), shape("ps-sync", 3, 3, true)}) {
    double bytes = 0;
    double packets = 0;
    for (const auto& host : predict_traffic(s)) {
      bytes += host.bytes_sent - host.bytes_received;
      packets += host.packets_sent - host.packets_received;
    }
    EXPECT_NEAR(bytes, 0, 1) << s.strategy;
    EXPECT_NEAR(packets, 0, 1) << s.strategy;
  }
  EXPECT_THROW(predict_traffic(shape("ps-async", 2, 1)), ConfigError);
}

TEST(Traffic, ALinkCarriesHeadersToo) {
  EXPECT_NEAR(payload_rate(1e9), 119.55e6, 0.01e6);
}

}  // namespace
}  // namespace tutti::lab
