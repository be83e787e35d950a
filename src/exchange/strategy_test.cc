#include "exchange/strategy.h"

#include <gtest/gtest.h>

#include "collectives/native.h"
#include "exchange/servers.h"
#include "net/inproc.h"

namespace tutti::exchange {
namespace {

using collectives::Operation;

std::vector<Operation> operations_of(const char* strategy, int workers) {
  std::vector<Operation> operations;
  net::run_as_threads(net::Medium::memory, workers, std::chrono::seconds(60), [&](net::Transport& t) {
    const collectives::NativeEngine all(t);
    const auto used = collectives_of(find_strategy(strategy), all, {}, 1 << 20);
    if (to_int(t.rank()) != 0) return;
    for (const Collective& c : used) operations.push_back(c.operation);
  });
  return operations;
}

TEST(Strategy, NamesTheCollectivesThatAStepTakes) {
  EXPECT_EQ(operations_of("ring", 2), std::vector{Operation::all_reduce});
  EXPECT_EQ(operations_of("hybrid", 2), std::vector{Operation::all_reduce});
  EXPECT_EQ(operations_of("reduce-broadcast", 2), (std::vector{Operation::reduce, Operation::broadcast}));
  for (const char* without : {"ps-sync", "ps-async", "hogwild"}) {
    EXPECT_EQ(operations_of(without, 2), std::vector<Operation>{}) << without;
  }
  EXPECT_EQ(operations_of("ring", 1), std::vector<Operation>{}) << "nobody to exchange with";
}

TEST(ServersReport, AddsUpWhatTheServersCounted) {
  const ps::ServerReport one{.bytes_sent = 100,
                             .applied = 4,
                             .dropped = 1,
                             .repeated = 2,
                             .max_lead = 3,
                             .staleness = {{0, 3}, {2, 1}}};
  const ps::ServerReport other{.bytes_sent = 300,
                               .applied = 6,
                               .dropped = 10,
                               .repeated = 20,
                               .max_lead = 1,
                               .staleness = {{0, 1}, {1, 4}, {5, 1}}};
  const observe::ServersFigures all{
      .bytes_sent_per_server = 200,
      .pieces_applied = 10,
      .pieces_dropped = 11,
      .pieces_repeated = 22,
      .max_lead = 3,
      .staleness = {.mean = 1.1, .max = 5, .histogram = {{0, 4}, {1, 4}, {2, 1}, {5, 1}}}};
  EXPECT_EQ(combine_reports({one, other}), all);
  EXPECT_EQ(combine_reports({}), observe::ServersFigures{});
}

}  // namespace
}  // namespace tutti::exchange
