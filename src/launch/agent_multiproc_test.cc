#include "launch/agent.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <thread>

#include "base/file.h"
#include "base/process.h"
#include "base/version.h"

namespace tutti::launch {
namespace {

constexpr auto kNobodyWaitsSoLong = std::chrono::seconds(60);

// An agent whose host needs long to prepare, and both ends of what is said.
class BusyAgent {
 public:
  BusyAgent() {
    int to_agent[2];
    int from_agent[2];
    if (::pipe(to_agent) != 0 || ::pipe(from_agent) != 0) throw_errno("pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to_agent[0], STDIN_FILENO);
      ::dup2(from_agent[1], STDOUT_FILENO);
      for (const int fd : {to_agent[0], to_agent[1], from_agent[0], from_agent[1]}) ::close(fd);
      AgentHello hello;
      hello.version = kVersion;
      std::_Exit(run_agent(hello, "/bin/true",
                           [](JobSpec&, int) { std::this_thread::sleep_for(kNobodyWaitsSoLong); }));
    }
    ::close(to_agent[0]);
    ::close(from_agent[1]);
    to_agent_ = UniqueFd(to_agent[1]);
    said_.reset(::fdopen(from_agent[0], "r"));
  }
  ~BusyAgent() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  BusyAgent(const BusyAgent&) = delete;
  BusyAgent& operator=(const BusyAgent&) = delete;

  void tell(const nlohmann::json& message) {
    const std::string line = message.dump() + '\n';
    write_all(to_agent_.get(), std::as_bytes(std::span(line)), "to the agent");
  }
  void hang_up() { to_agent_.reset(); }

  // The next line with this word in it; empty at the end.
  std::string next(const std::string& word) {
    char line[4096];
    while (std::fgets(line, sizeof line, said_.get()) != nullptr) {
      if (std::string(line).find('"' + word + '"') != std::string::npos) return line;
    }
    return "";
  }

  // Its exit code, and how long it took to end.
  std::pair<int, Clock::duration> wait() {
    const auto begin = Clock::now();
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, Clock::now() - begin};
  }

 private:
  pid_t pid_ = -1;
  UniqueFd to_agent_;
  std::unique_ptr<FILE, int (*)(FILE*)> said_{nullptr, &std::fclose};
};

AgentJob job_of_one() {
  AgentJob job;
  job.spec.workers = 1;
  job.ranks = {Rank{0}};
  job.hosts = {0};
  job.folder = "/";
  return job;
}

TEST(Agent, ShowsLifeAndEndsWhenItIsToldToWhileItPrepares) {
  BusyAgent agent;
  agent.tell(to_json(job_of_one()));
  for (int i = 0; i < 10; ++i) EXPECT_NE(agent.next("board"), "");
  agent.tell({{"stop", true}});
  EXPECT_NE(agent.next("done"), "");
  const auto [code, took] = agent.wait();
  EXPECT_EQ(code, 0);
  EXPECT_LT(took, std::chrono::seconds(5));
}

TEST(Agent, EndsWhenItsLauncherIsGoneWhileItPrepares) {
  BusyAgent agent;
  agent.tell(to_json(job_of_one()));
  for (int i = 0; i < 10; ++i) EXPECT_NE(agent.next("board"), "");
  agent.hang_up();
  const auto [code, took] = agent.wait();
  EXPECT_EQ(code, 1);
  EXPECT_LT(took, std::chrono::seconds(10));
}

}  // namespace
}  // namespace tutti::launch
