#include "launch/job.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>
#include <thread>

#include "net/segment.h"

namespace tutti::launch {
namespace {

// Nothing in it is what a WorkerJob begins with.
WorkerJob unusual() {
  WorkerJob job;
  job.rank = Rank{5};
  job.world = 7;
  job.workers = 6;
  job.hosts = {0, 1, 0, 2, 1, 0, 2};
  job.task = "a task";
  job.payload = {{"text", "\"quoted\"\n"}, {"numbers", {1, 2.5}}};
  for (std::size_t i = 0; i < job.secret.size(); ++i) job.secret[i] = static_cast<std::byte>(251 - i);
  job.transport = "tcp";
  job.wire = net::Wire::encrypt;
  job.segment_fd = 11;
  job.local_segment_fd = 12;
  job.rendezvous = {"10.1.2.3", 4567};
  job.address = "10.1.2.4";
  job.board_fd = 13;
  job.report_fd = 14;
  job.timeout = std::chrono::milliseconds(1234);
  job.survives_workers = true;
  job.shows_life = false;
  job.own_core = true;
  return job;
}

TEST(Job, DescriptionArrivesWholeAndItsDescriptorIsClosed) {
  WorkerJob sent = unusual();
  sent.digest = digest_of(sent);
  const int fd = write_job(sent).release();
  EXPECT_TRUE(read_job(fd) == sent);
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
}

TEST(Job, RanksOfOneHaveOneDigestAndOthersHaveAnother) {
  const WorkerJob job = unusual();
  WorkerJob other = job;
  other.rank = Rank{6};
  other.address = "10.1.2.9";
  EXPECT_EQ(digest_of(job), digest_of(other));
  other.payload["numbers"][1] = 2.25;
  EXPECT_NE(digest_of(job), digest_of(other));
  other = job;
  other.task = "another task";
  EXPECT_NE(digest_of(job), digest_of(other));
  other = job;
  other.world = 8;
  EXPECT_NE(digest_of(job), digest_of(other));
  EXPECT_EQ(credentials_of(job).terms, (net::Terms{.job = digest_of(job), .wire = job.wire}));
}

TEST(Job, DescriptorOfSomethingElseIsRefusedByItsNumber) {
  EXPECT_THROW(read_job(STDIN_FILENO), ConfigError);
  EXPECT_EQ(::fcntl(STDIN_FILENO, F_GETFD), 0) << "and left open";
  EXPECT_THROW(read_job(1000), ConfigError);
  const int empty = make_memory_file("empty", 0).release();
  EXPECT_THROW(read_job(empty), ConfigError);
  UniqueFd text = make_memory_file("text", 0);
  ASSERT_EQ(::write(text.get(), "{\"rank\": 0}", 11), 11);
  const int number = text.release();
  try {
    read_job(number);
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("descriptor " + std::to_string(number)), std::string::npos)
        << e.what();
  }
}

TEST(Job, WhoJoinsSaysSoAndTakesItsOwnSeat) {
  const auto board = net::StatusBoard::create(2);
  const auto segment = net::Segment::create(2);
  const auto beside = net::Segment::create(2);
  const auto job_of = [&](int rank) {
    WorkerJob job = unusual();
    job.rank = Rank{rank};
    job.world = 2;
    job.workers = 2;
    job.hosts = {0, 0};
    job.transport = "shm";
    job.segment_fd = segment.fd();
    job.local_segment_fd = beside.fd();
    job.board_fd = board.fd();
    job.timeout = std::chrono::seconds(60);
    return job;
  };
  const auto join = [&](int rank) {
    observe::JsonlSink report(UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC)), "report");
    const auto transport = connect(job_of(rank), report);
    EXPECT_EQ(transport->rank(), Rank{rank});
    EXPECT_EQ(transport->world(), 2);
    const auto neighbours = connect_neighbours(job_of(rank));
    ASSERT_NE(neighbours, nullptr);
    EXPECT_EQ(neighbours->rank(), Rank{rank});
  };
  std::thread other([&] { join(0); });
  join(1);
  other.join();
  for (const int r : {0, 1}) EXPECT_EQ(board.doing(Rank{r}), "joining the job");
}

TEST(Job, WorkersOfAHostAreThoseAndNoServers) {
  WorkerJob job = unusual();
  EXPECT_EQ(workers_of_host(job), (std::vector{Rank{0}, Rank{2}, Rank{5}}));
  job.rank = Rank{6};
  EXPECT_EQ(workers_of_host(job), std::vector{Rank{3}}) << "beside the server itself";
}

// Ranks 0, 2 and 5 of a job of seven. On the board, and when one of them leaves, they have their ranks in it.
TEST(Job, NeighboursAreRankedByTheirOrderAndNamedByTheirRankInTheJob) {
  const auto board = net::StatusBoard::create(7);
  const auto segment = net::Segment::create(3);
  const auto join = [&](int rank, const std::function<void(net::Transport&)>& body) {
    WorkerJob job = unusual();
    job.rank = Rank{rank};
    job.local_segment_fd = segment.fd();
    job.board_fd = board.fd();
    job.timeout = std::chrono::seconds(60);
    const auto neighbours = connect_neighbours(job);
    ASSERT_NE(neighbours, nullptr);
    EXPECT_EQ(neighbours->world(), 3);
    body(*neighbours);
  };
  std::thread first([&] { join(0, [](net::Transport& t) { EXPECT_EQ(t.rank(), Rank{0}); }); });
  std::thread last([&] { join(5, [](net::Transport& t) { EXPECT_EQ(t.rank(), Rank{2}); }); });
  join(2, [&](net::Transport& t) {
    EXPECT_EQ(t.rank(), Rank{1});
    try {
      net::receive(t, Rank{2}, {}, {"a word"});
      ADD_FAILURE();
    } catch (const PeerLost& e) {
      EXPECT_EQ(e.fault.rank, Rank{2});
      EXPECT_EQ(e.fault.peer, Rank{5});
    }
  });
  first.join();
  last.join();
  for (const int r : {0, 2, 5}) EXPECT_GT(board.vitals(Rank{r}).progress, 0U) << r;
  EXPECT_EQ(board.vitals(Rank{1}).progress, 0U) << "on another host";
}

TEST(Job, WhatAJobDoesNotHaveIsNotOpened) {
  const auto board = net::StatusBoard::create(2);
  WorkerJob job = unusual();
  job.board_fd = board.fd();
  job.local_segment_fd = -1;
  EXPECT_EQ(connect_neighbours(job), nullptr);
  EXPECT_THROW(open_board(job), std::logic_error) << "a board for 2 in a job of 7";
}

TEST(Job, FailuresArriveAsTheyWere) {
  const PeerFault fault{Rank{3}, Rank{1}, "all-reduce, bucket 2", std::chrono::milliseconds(4321),
                        "10.0.0.1:20000"};
  const auto sent_over = [](const std::exception& e) { return failure_from_json(to_json(failure_of(e))); };
  const auto lost = sent_over(PeerLost(fault));
  EXPECT_EQ(lost.kind, Failure::Kind::peer_lost);
  ASSERT_TRUE(lost.fault);
  EXPECT_EQ(lost.fault->rank, fault.rank);
  EXPECT_EQ(lost.fault->peer, fault.peer);
  EXPECT_EQ(lost.fault->operation, fault.operation);
  EXPECT_EQ(lost.fault->waited, fault.waited);
  EXPECT_EQ(lost.fault->address, fault.address);
  EXPECT_EQ(sent_over(Timeout(fault)).kind, Failure::Kind::timeout);
  const auto usage = sent_over(ConfigError("no such thing"));
  EXPECT_EQ(usage.kind, Failure::Kind::usage);
  EXPECT_EQ(usage.what, "no such thing");
  EXPECT_FALSE(usage.fault);
  EXPECT_EQ(exit_code_of(usage), 2);
  const auto run = sent_over(RunError("first line\nframe #0"));
  EXPECT_EQ(run.what, "first line");
  EXPECT_EQ(run.kind, Failure::Kind::run);
  EXPECT_EQ(exit_code_of(run), 1);
}

}  // namespace
}  // namespace tutti::launch
