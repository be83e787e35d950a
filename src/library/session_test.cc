#include "tutti/session.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <torch/torch.h>

#include <numeric>

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

// What malloc holds while a block of 20 MB is in use, and after it was freed: bytes of its heap, and of
// blocks that have a mapping of their own, which goes back to the kernel with the block. Page faults of a
// second block would say less: an aligned one is not put where one of the same size was freed unless there
// happens to be room to align it in.
struct Held {
  std::size_t heap;
  std::size_t mapped;
};
Held held() {
  const auto info = ::mallinfo2();
  return {info.arena, info.hblkhd};
}

TEST(Session, MemoryThatIsFreedIsKept) {
  for (const char* name : {"GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"}) {
    ::unsetenv(name);
  }
  const auto session = Session::join();
  const Held before = held();
  auto block = torch::empty({5 << 20});
  const Held in_use = held();
  block.reset();
  const Held after = held();
  EXPECT_EQ(in_use.mapped, before.mapped);
  EXPECT_GE(after.heap, std::size_t{20} << 20);
  EXPECT_EQ(after.heap, in_use.heap);
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

// The algorithm that an all-reduce of a megabyte takes.
std::string algorithm_of(Session& session) {
  return MakeSession::behind(session).all().method(collectives::Operation::all_reduce, 1 << 20).algorithm;
}

TEST(Session, OnSeveralHostsAddsUpInsideEachFirst) {
  run_sessions_on({0, 1, 0, 1, 1}, [](Session& session) {
    EXPECT_EQ(algorithm_of(session), "hierarchical");
    EXPECT_EQ(session.local_size(), session.rank() % 2 == 0 && session.rank() < 4 ? 2 : 3);
    for (const std::int64_t n : {3, 2'500'000, 7}) {
      auto tensor = torch::arange(n, torch::kFloat64) * (session.rank() + 1);
      session.all_reduce(tensor, ReduceOp::sum);
      EXPECT_TRUE(torch::equal(tensor, torch::arange(n, torch::kFloat64) * 15)) << n;
    }
    auto& inside = *MakeSession::behind(session).all().neighbours();
    EXPECT_EQ(inside.world(), session.local_size());
    EXPECT_GT(inside.bytes_sent(), 2'500'000U * 8 / 3);
    auto root = torch::tensor({session.rank()});
    session.broadcast(root, 3);
    EXPECT_EQ(root.item<int>(), 3);
  });
}

TEST(Session, GroupsOnSeveralHostsUseTheMemoryThatTheyShare) {
  run_sessions_on({0, 1, 0, 1, 1}, [](Session& session) {
    const int r = session.rank();
    const auto sum_in = [&](const std::vector<int>& ranks, const char* algorithm) {
      auto group = session.group(ranks);
      EXPECT_EQ(algorithm_of(group), algorithm);
      auto sum = torch::full({300'000}, r);
      group.all_reduce(sum, ReduceOp::sum);
      EXPECT_TRUE(torch::equal(sum, torch::full({300'000}, std::accumulate(ranks.begin(), ranks.end(), 0))));
      return group.local_size();
    };
    // All of a host.
    if (r == 0 || r == 2) {
      EXPECT_EQ(sum_in({2, 0}, "one-pass"), 2);
    }
    // Some of several, in an order of their own.
    if (r == 1 || r == 2 || r == 4) {
      EXPECT_EQ(sum_in({4, 2, 1}, "hierarchical"), r == 2 ? 1 : 2);
    }
    // One of each.
    if (r == 0 || r == 3) {
      EXPECT_EQ(sum_in({0, 3}, "recursive-doubling"), 1);
    }
  });
}

TEST(Session, AGroupThatDoesNotComeTogetherNamesRanksOfTheSession) {
  const std::vector<int> ranks = {2, 1};
  const ConnectOptions connection{net::make_secret(), "127.0.0.1",
                                  net::unpinned_options(3, std::chrono::seconds(2))};
  const auto patient = net::unpinned_options(3, std::chrono::seconds(20));
  net::run_as_threads(net::Medium::sockets, 3, patient, [&](net::Transport& transport) {
    if (transport.rank() == Rank{2}) {  // tells where it is, and goes
      net::Survivors some(transport, {Rank{2}, Rank{1}});
      collectives::NativeEngine among(some);
      make_world(among, false, 0, connection, {.hosts = {0, 0}, .ranks = {Rank{2}, Rank{1}}});
    }
    if (transport.rank() != Rank{1}) return;
    Member member(std::make_unique<net::Group>(transport, 3), connection);
    expect_throw<PeerError>("rank 1: rank 2 ", [&] { member.group(ranks); });
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
