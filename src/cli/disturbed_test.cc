// The program when its processes are killed, stopped, interrupted and bothered by strangers.
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "cli/program_fixture.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class ProgramKilled : public Program, public ::testing::WithParamInterface<const char*> {};

TEST_P(ProgramKilled, DeadWorkerEndsTheRunAndIsNamed) {
  Running running(root(),
                  train({"--workers", "3", "--transport", GetParam(), "--epochs", "50", "--no-evaluate"}));
  wait_for_steps();
  const auto workers = running.workers();
  ASSERT_EQ(workers.size(), 3U);
  ::kill(workers[1], SIGKILL);
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 1);
  EXPECT_NE(e.error.find("rank 1 was killed by SIGKILL"), std::string::npos) << e.error;
  EXPECT_NE(e.error.find("all-reduce of bucket"), std::string::npos) << e.error;
  expect_gone(workers);
  EXPECT_FALSE(fs::exists(out() / "summary.json"));
}

// With the default settings, whose deadline for work is far away.
TEST_P(ProgramKilled, StoppedWorkerIsNamedWithWhatItWasDoing) {
  Running running(root(),
                  train({"--workers", "2", "--transport", GetParam(), "--epochs", "50", "--no-evaluate"}));
  wait_for_steps();
  const auto workers = running.workers();
  ASSERT_EQ(workers.size(), 2U);
  ::kill(workers[1], SIGSTOP);
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 1);
  EXPECT_NE(e.error.find("rank 1 showed no life for 2."), std::string::npos) << e.error;
  EXPECT_NE(e.error.find(" s (its process is stopped); it was computing step "), std::string::npos)
      << e.error;
  EXPECT_NE(e.error.find("; rank 0 was in all-reduce of bucket"), std::string::npos) << e.error;
  expect_gone(workers);
}

INSTANTIATE_TEST_SUITE_P(Transports, ProgramKilled, ::testing::Values("shm", "tcp"),
                         [](const auto& p) { return std::string(p.param); });

TEST_F(Program, DeadServerEndsTheRunAndIsNamed) {
  for (const char* transport : {"shm", "tcp"}) {
    Running running(root(), train({"--strategy", "ps-sync", "--servers", "2", "--workers", "2", "--transport",
                                   transport, "--epochs", "50", "--no-evaluate"}));
    wait_for_steps();
    const auto processes = running.workers();
    ASSERT_EQ(processes.size(), 4U);
    ::kill(processes[3], SIGKILL);
    const Ended e = running.wait();
    EXPECT_EQ(e.code, 1);
    EXPECT_NE(e.error.find("rank 3 (a server) was killed by SIGKILL"), std::string::npos) << e.error;
    expect_gone(processes);
    remove_tree(out());
  }
}

TEST_F(Program, InterruptStopsAllAndSaysSo) {
  Running running(root(), train({"--workers", "2", "--epochs", "50", "--no-evaluate"}));
  wait_for_steps();
  const auto workers = running.workers();
  ::kill(running.pid(), SIGINT);
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 130);
  EXPECT_NE(e.error.find("interrupted by SIGINT"), std::string::npos) << e.error;
  expect_gone(workers);
}

// One of them is alone with an evaluation that takes much longer than the others may stand still.
TEST_F(Program, WorkerThatEvaluatesForLongIsNotBlamed) {
  data::fixture::write_bars(root() / "data", "mnist", 600, 15'000);
  const Ended e = run(train({"--strategy", "ps-async", "--workers", "2", "--steps", "30", "--evaluate-every",
                             "10", "--timeout", "2", "--no-checkpoint"}));
  EXPECT_EQ(e.code, 0) << e.error;
}

TEST_F(Program, WorkerThatIsSlowIsNotBlamed) {
  const Ended e = run(train({"--strategy", "hogwild", "--workers", "2", "--slow", "1:20", "--steps", "30",
                             "--timeout", "2", "--no-evaluate", "--no-checkpoint"}));
  EXPECT_EQ(e.code, 0) << e.error;
}

// The ports that a process listens on, from the kernel's table.
std::vector<std::uint16_t> listening_ports(pid_t pid) {
  std::set<std::string> inodes;
  for (const auto& fd : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code gone;
    const auto target = fs::read_symlink(fd, gone).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  std::vector<std::uint16_t> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    if (state == "0A" && inodes.contains(inode)) {
      ports.push_back(static_cast<std::uint16_t>(std::stoi(local.substr(local.find(':') + 1), nullptr, 16)));
    }
  }
  return ports;
}

TEST_F(Program, StrangersAreClosedAndCountedAndTheRunGoesOn) {
  Running running(root(), train({"--workers", "2", "--transport", "tcp", "--steps", "60", "--no-evaluate"}));
  wait_for_steps();
  const auto ports = listening_ports(running.pid());
  ASSERT_EQ(ports.size(), 1U);
  boost::asio::io_context io;
  for (const std::string& greeting : {std::string("GET / HTTP/1.0\r\n\r\n") + std::string(64, ' '),
                                      std::string(4096, '\xff'), std::string(56, '\0')}) {
    boost::asio::ip::tcp::socket socket(io);
    socket.connect({boost::asio::ip::address_v4::loopback(), ports[0]});
    boost::asio::write(socket, boost::asio::buffer(greeting));
    boost::system::error_code closed;
    char byte = 0;
    boost::asio::read(socket, boost::asio::buffer(&byte, 1), closed);
    EXPECT_TRUE(closed) << "the stranger got an answer";
  }
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(summary()["rejected_connections"], 3);
}

TEST_F(Program, SharedMemoryJobsListenOnNoPort) {
  Running running(root(), train({"--workers", "2", "--steps", "30", "--no-evaluate"}));
  wait_for_steps();
  EXPECT_TRUE(listening_ports(running.pid()).empty());
  for (const pid_t worker : running.workers()) EXPECT_TRUE(listening_ports(worker).empty());
  EXPECT_EQ(running.wait().code, 0);
}

TEST_F(Program, RunsWithoutStandardInputOutputAndError) {
  for (const char* transport : {"shm", "tcp"}) {
    const Ended e =
        run(train({"--workers", "2", "--transport", transport, "--steps", "4", "--no-evaluate"}), [] {
          for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
        });
    EXPECT_EQ(e.code, 0);
    EXPECT_TRUE(fs::exists(out() / "summary.json"));
    remove_tree(out());
  }
  // One of them, of which our own descriptors would take the place.
  const Ended e = run(train({"--steps", "4", "--no-evaluate"}), [] { ::close(STDIN_FILENO); });
  EXPECT_EQ(e.code, 0) << e.error;
}

TEST_F(Program, OutputThatCannotBeWrittenIsSaidAndTheRunDone) {
  const auto to_a_full_disk = [] { ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO); };
  for (const auto& command : {std::vector<std::string>{"models"}, std::vector<std::string>{"--version"},
                              train({"--workers", "2", "--steps", "4", "--no-evaluate"})}) {
    const Ended e = run(command, to_a_full_disk);
    EXPECT_EQ(e.code, 1) << command[0];
    EXPECT_EQ(std::ranges::count(e.error, '\n'), 1) << e.error;
    EXPECT_NE(e.error.find("standard output"), std::string::npos) << e.error;
  }
  EXPECT_EQ(summary()["steps"], 4);
}

}  // namespace
}  // namespace tutti
