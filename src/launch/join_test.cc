#include "launch/join.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <barrier>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/version.h"
#include "net/transport.h"

namespace tutti::launch {
namespace {

// A meeting of threads.
class Room {
 public:
  explicit Room(int world) : texts_(static_cast<std::size_t>(world)), all_(world) {}

  class Seat final : public rendezvous::Meeting {
   public:
    Seat(Room& room, int rank) : room_(room), rank_(rank) {}
    Rank rank() const override { return Rank{rank_}; }
    int world() const override { return static_cast<int>(room_.texts_.size()); }
    std::vector<std::string> all_gather(const std::string& mine) override {
      room_.texts_[static_cast<std::size_t>(rank_)] = mine;
      room_.all_.arrive_and_wait();
      auto texts = room_.texts_;
      room_.all_.arrive_and_wait();  // before anybody writes the next
      return texts;
    }

   private:
    Room& room_;
    int rank_;
  };

 private:
  std::vector<std::string> texts_;
  std::barrier<> all_;
};

void meet(int world, const std::function<void(rendezvous::Meeting&)>& body) {
  Room room(world);
  std::vector<std::thread> threads;
  for (int r = 0; r < world; ++r) {
    threads.emplace_back([&, r] {
      Room::Seat seat(room, r);
      body(seat);
    });
  }
  for (auto& t : threads) t.join();
}

JobSpec spec_of(int workers, int servers, const std::string& transport) {
  JobSpec spec;
  spec.workers = workers;
  spec.servers = servers;
  spec.transport = transport;
  spec.task = "a task";
  spec.payload = {{"number", 7}};
  return spec;
}

const JobSpec* on_first(const rendezvous::Meeting& meeting, const JobSpec& spec) {
  return meeting.rank() == Rank{0} ? &spec : nullptr;
}

TEST(Join, ProcessesOfOneHostReachEachOtherByEitherTransport) {
  for (const char* transport : {"shm", "tcp"}) {
    const JobSpec spec = spec_of(2, 1, transport);
    meet(3, [&](rendezvous::Meeting& meeting) {
      const auto joined = join(meeting, on_first(meeting, spec));
      const WorkerJob& job = joined->job();
      EXPECT_EQ(job.rank, meeting.rank());
      EXPECT_EQ(job.world, 3);
      EXPECT_EQ(job.task, "a task");
      EXPECT_EQ(job.payload, spec.payload);
      EXPECT_EQ(job.address, "127.0.0.1");
      observe::JsonlSink unheard(UniqueFd(), "nowhere");
      const auto all = connect(job, unheard);
      const Rank next{(to_int(job.rank) + 1) % 3};
      const Rank last{(to_int(job.rank) + 2) % 3};
      const int mine = to_int(job.rank);
      int theirs = -1;
      const net::Outgoing out[] = {{next, std::as_bytes(std::span(&mine, 1))}};
      const net::Incoming in[] = {{last, std::as_writable_bytes(std::span(&theirs, 1)), sizeof theirs}};
      all->transfer(out, in, {"a round"});
      EXPECT_EQ(theirs, to_int(last));
      EXPECT_EQ(open_board(job).ranks(), 3) << "all of a host see one board";
    });
  }
}

TEST(Join, ColocatedServersNeedNoProcessesOfTheirOwn) {
  JobSpec spec = spec_of(2, 2, "shm");
  spec.colocate = true;
  meet(2, [&](rendezvous::Meeting& meeting) {
    EXPECT_EQ(join(meeting, on_first(meeting, spec))->job().world, 4);
  });
}

TEST(Join, TooFewProcessesAreRefusedOnEveryRankWithBothNumbers) {
  const JobSpec spec = spec_of(2, 1, "shm");
  std::atomic<int> refused{0};
  meet(2, [&](rendezvous::Meeting& meeting) {
    try {
      join(meeting, on_first(meeting, spec));
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("2 workers and 1 servers need 3 processes, and 2 were started"),
                std::string::npos)
          << e.what();
      ++refused;
    }
  });
  EXPECT_EQ(refused, 2);
}

// As a process of another version would speak.
class OtherVersion final : public rendezvous::Meeting {
 public:
  explicit OtherVersion(rendezvous::Meeting& meeting) : meeting_(meeting) {}
  Rank rank() const override { return meeting_.rank(); }
  int world() const override { return meeting_.world(); }
  std::vector<std::string> all_gather(const std::string& mine) override {
    auto said = nlohmann::json::parse(mine);
    said["version"] = "0.0.1";
    return meeting_.all_gather(said.dump());
  }

 private:
  rendezvous::Meeting& meeting_;
};

TEST(Join, VersionsThatDifferAreRefusedOnEveryRankWithBoth) {
  const JobSpec spec = spec_of(3, 0, "shm");
  std::atomic<int> refused{0};
  meet(3, [&](rendezvous::Meeting& meeting) {
    OtherVersion other(meeting);
    try {
      join(meeting.rank() == Rank{2} ? static_cast<rendezvous::Meeting&>(other) : meeting,
           on_first(meeting, spec));
    } catch (const ConfigError& e) {
      EXPECT_EQ(
          std::string(e.what()),
          fmt::format("rank 0 is tutti {} and rank 2 is tutti 0.0.1: the same version must be everywhere",
                      kVersion));
      ++refused;
    }
  });
  EXPECT_EQ(refused, 3);
}

TEST(Join, InterfaceAndPortsOfTheSpecAreWhereRanksListen) {
  JobSpec spec = spec_of(2, 0, "tcp");
  spec.interface = "lo";
  spec.ports = {21'300, 21'399};
  meet(2, [&](rendezvous::Meeting& meeting) {
    const auto joined = join(meeting, on_first(meeting, spec));
    const WorkerJob& job = joined->job();
    EXPECT_EQ(job.address, "127.0.0.1");
    EXPECT_EQ(job.ports, spec.ports);
    EXPECT_GE(job.rendezvous.port, spec.ports.first);
    EXPECT_LE(job.rendezvous.port, spec.ports.last);
    observe::JsonlSink unheard(UniqueFd(), "nowhere");
    EXPECT_EQ(connect(job, unheard)->world(), 2);
  });
}

TEST(Join, JobThatIsCalledOffBeginsNowhere) {
  meet(2, [](rendezvous::Meeting& meeting) {
    if (meeting.rank() == Rank{0}) return call_off(meeting, "the data is missing", 2);
    try {
      join(meeting, nullptr);
      ADD_FAILURE();
    } catch (const CalledOff& e) {
      EXPECT_STREQ(e.what(), "the data is missing");
      EXPECT_EQ(e.exit_code, 2);
    }
  });
}

TEST(Join, WhoCannotTakePartIsNamedToTheOthers) {
  const JobSpec spec = spec_of(3, 0, "tcp");
  std::atomic<int> told{0};
  meet(3, [&](rendezvous::Meeting& meeting) {
    if (meeting.rank() == Rank{1}) {
      hosts_of(meeting);
      return call_off(meeting, "there is no interface eth7", 1);
    }
    try {
      hosts_of(meeting);
      join(meeting, on_first(meeting, spec));
      ADD_FAILURE();
    } catch (const CalledOff& e) {
      EXPECT_STREQ(e.what(), "rank 1: there is no interface eth7");
      EXPECT_EQ(e.exit_code, 1);
      ++told;
    }
  });
  EXPECT_EQ(told, 2);
}

TEST(RunJoined, ReportsAreHeardAndFailuresSayWhy) {
  const JobSpec spec = spec_of(2, 0, "shm");
  meet(2, [&](rendezvous::Meeting& meeting) {
    std::vector<nlohmann::json> heard;
    const Listener listener{.on_output = {},
                            .on_report = [&](Rank, const auto& line) { heard.push_back(line); }};
    const auto outcome = run_joined(meeting, on_first(meeting, spec), listener, [](const WorkerJob& job) {
      observe::JsonlSink report(UniqueFd(job.report_fd), "a pipe");
      report.write_line({{"event", "one"}});
      report.write_line({{kRejectedConnections, 2}});
      return 0;
    });
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.rejected_connections, 4U) << "of all ranks";
    EXPECT_EQ(heard, std::vector{nlohmann::json({{"event", "one"}})});

    const auto failed = run_joined(meeting, on_first(meeting, spec), listener, [](const WorkerJob& job) {
      observe::JsonlSink report(UniqueFd(job.report_fd), "a pipe");
      report.write_line(to_json(failure_of(DataError("no such column"))));
      return 2;
    });
    EXPECT_EQ(failed.exit_code, 2);
    EXPECT_EQ(failed.line, "no such column");
  });
}

TEST(RunJoined, StopThatSomeHaveMetInterruptsAllBySameSignal) {
  const JobSpec spec = spec_of(2, 0, "shm");
  const Listener silent{.on_output = {}, .on_report = [](Rank, const auto&) {}};
  meet(2, [&](rendezvous::Meeting& meeting) {
    const auto outcome = run_joined(meeting, on_first(meeting, spec), silent, [](const WorkerJob& job) {
      const UniqueFd report(job.report_fd);
      if (job.rank == Rank{1}) open_board(job).requests().set_met(net::Request::stop);
      return 0;
    });
    EXPECT_EQ(outcome.exit_code, 128 + SIGTERM);
    EXPECT_EQ(outcome.interrupted_by, SIGTERM);
    EXPECT_NE(outcome.line.find("all 2 processes have ended"), std::string::npos) << outcome.line;
  });
}

}  // namespace
}  // namespace tutti::launch
