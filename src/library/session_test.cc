#include "tutti/session.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/error.h"
#include "library/library_fixture.h"

namespace tutti::library {
namespace {

class SessionTest : public testing::TestWithParam<net::Medium> {};

INSTANTIATE_TEST_SUITE_P(Media, SessionTest, testing::Values(net::Medium::memory, net::Medium::sockets),
                         [](const auto& i) { return i.param == net::Medium::memory ? "memory" : "sockets"; });

TEST(Session, AloneWithoutALauncher) {
  auto session = Session::join();
  EXPECT_EQ(session.rank(), 0);
  EXPECT_EQ(session.size(), 1);
  auto tensor = torch::tensor({1.5F, -2.0F});
  session.all_reduce(tensor);
  EXPECT_TRUE(torch::equal(tensor, torch::tensor({1.5F, -2.0F})));
  EXPECT_TRUE(torch::equal(session.all_gather(tensor), tensor.unsqueeze(0)));
  EXPECT_EQ(session.all_gather(std::string("me")), std::vector<std::string>{"me"});
}

TEST_P(SessionTest, ReducesEveryTypeAndOperation) {
  run_sessions(3, GetParam(), [](Session& session) {
    const int r = session.rank();
    for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kInt64, torch::kInt32, torch::kBFloat16,
                            torch::kFloat16, torch::kInt16, torch::kInt8, torch::kUInt8}) {
      const auto of = [&](std::vector<int> values) { return torch::tensor(values).to(type); };
      auto sum = of({r + 1, 10 * r});
      session.all_reduce(sum, ReduceOp::sum);
      EXPECT_TRUE(torch::equal(sum, of({6, 30}))) << type << sum;
      auto mean = of({3 * r, 6});
      session.all_reduce(mean);
      EXPECT_TRUE(torch::equal(mean, of({3, 6}))) << type << mean;
      auto least = of({r, 5 - r});
      session.all_reduce(least, ReduceOp::min);
      EXPECT_TRUE(torch::equal(least, of({0, 3}))) << type << least;
      auto greatest = of({r, 5 - r});
      session.all_reduce(greatest, ReduceOp::max);
      EXPECT_TRUE(torch::equal(greatest, of({2, 5}))) << type << greatest;
    }
  });
}

TEST_P(SessionTest, ReducesWhatIsNotContiguous) {
  run_sessions(2, GetParam(), [](Session& session) {
    auto whole = torch::full({4, 6}, static_cast<float>(session.rank()));
    auto column = whole.select(1, 2);
    session.all_reduce(column, ReduceOp::sum);
    EXPECT_TRUE(torch::equal(whole.select(1, 2), torch::ones({4})));
    EXPECT_EQ(whole.sum().item<float>(),
              4 + 20.0F * static_cast<float>(session.rank()));  // nothing else changed
  });
}

TEST_P(SessionTest, StagingGrowsWithWhatIsReduced) {
  run_sessions(2, GetParam(), [](Session& session) {
    for (const std::int64_t n : {3, 100'000, 7, 300'001}) {
      auto tensor = torch::arange(n, torch::kFloat32) * static_cast<float>(session.rank() + 1);
      session.all_reduce(tensor, ReduceOp::sum);
      EXPECT_TRUE(torch::equal(tensor, torch::arange(n, torch::kFloat32) * 3)) << n;
    }
  });
}

TEST_P(SessionTest, GathersAndBroadcastsTensorsAndText) {
  run_sessions(3, GetParam(), [](Session& session) {
    const int r = session.rank();
    const auto flags = torch::tensor({r == 0, r == 1, r == 2});  // three bytes each: no multiple of a word
    EXPECT_TRUE(torch::equal(session.all_gather(flags), torch::eye(3, torch::kBool)));
    EXPECT_EQ(session.all_gather(std::string(static_cast<std::size_t>(r), 'x')),
              (std::vector<std::string>{"", "x", "xx"}));
    auto tensor = torch::full({2, 3}, r, torch::kFloat64).t();
    session.broadcast(tensor, 2);
    EXPECT_TRUE(torch::equal(tensor, torch::full({3, 2}, 2, torch::kFloat64)));
    std::string text = r == 1 ? "of rank 1" : "";
    session.broadcast(text, 1);
    EXPECT_EQ(text, "of rank 1");
    session.barrier();
  });
}

TEST_P(SessionTest, GroupsAreSessionsOfTheirOwn) {
  run_sessions(4, GetParam(), [](Session& session) {
    const std::vector<int> ranks = session.rank() % 2 == 0 ? std::vector{2, 0} : std::vector{1, 3};
    auto group = session.group(ranks);
    EXPECT_EQ(group.size(), 2);
    EXPECT_EQ(ranks[static_cast<std::size_t>(group.rank())], session.rank());
    auto sum = torch::tensor({session.rank()});
    group.all_reduce(sum, ReduceOp::sum);
    EXPECT_EQ(sum.item<int>(), session.rank() % 2 == 0 ? 2 : 4);
    // Both are used at a time.
    auto all = torch::tensor({session.rank()});
    session.all_reduce(all, ReduceOp::sum);
    EXPECT_EQ(all.item<int>(), 6);
  });
}

TEST(Session, RefusesWhatItCannotMean) {
  run_sessions(2, net::Medium::memory, [](Session& session) {
    EXPECT_THROW(session.group({0, 0}), ConfigError);
    EXPECT_THROW(session.group({0, 2}), ConfigError);
    EXPECT_THROW(session.group({1 - session.rank()}), ConfigError);
    torch::Tensor none;
    EXPECT_THROW(session.all_reduce(none), ConfigError);
    auto complex = torch::zeros({2}, torch::kComplexFloat);
    EXPECT_THROW(session.all_reduce(complex), ConfigError);
    auto fine = torch::zeros({2});
    EXPECT_THROW(session.broadcast(fine, 2), ConfigError);
  });
}

}  // namespace
}  // namespace tutti::library
