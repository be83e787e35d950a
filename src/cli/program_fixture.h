// The program as a test runs it: in a folder of its own, with small data there.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/scratch_folder.h"
#include "data/bars_fixture.h"

namespace tutti {

struct Ended {
  int code = -1;
  std::string out;
  std::string error;
};

// Looks every few milliseconds, because what is waited for needs the processor. Bounded by the test's time
// limit.
inline void wait_until(const std::function<bool()>& holds) {
  while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds(3));
}

// A run of the program whose output goes to files. `before` is the last that happens in its process before it
// starts.
class Running {
 public:
  Running(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
          const std::function<void()>& before = {})
      : out_(folder / "stdout"), error_(folder / "stderr") {
    pid_ = ::fork();
    if (pid_ != 0) return;
    const int out = ::open(out_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    const int error = ::open(error_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(error, STDERR_FILENO);
    ::setenv("TUTTI_DATA", (folder / "data").c_str(), 1);
    std::vector<char*> argv{const_cast<char*>(program())};
    for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    // As in a terminal, wherever the tests run: a job in the background may ignore them from the start.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
    if (before) before();
    ::execv(program(), argv.data());
    ::_exit(126);
  }

  ~Running() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // The one that was built, or another one that script/mutate has made.
  static const char* program() {
    const char* other = std::getenv("TEST_PROGRAM");
    return other != nullptr ? other : TUTTI_PROGRAM;
  }

  pid_t pid() const { return pid_; }

  Ended wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(out_),
            read_file(error_)};
  }

  // Its workers, by rank: children in the order in which they were started.
  std::vector<pid_t> workers() const {
    std::ifstream children("/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) + "/children");
    std::vector<pid_t> pids;
    for (pid_t p = 0; children >> p;) pids.push_back(p);
    return pids;
  }

 private:
  std::filesystem::path out_;
  std::filesystem::path error_;
  pid_t pid_ = -1;
};

class Program : public ::testing::Test {
 protected:
  Program() { data::fixture::write_bars(root() / "data", "mnist", 2000, 100); }

  const std::filesystem::path& root() const { return folder_.path(); }
  std::filesystem::path out() const { return root() / "run"; }

  Ended run(const std::vector<std::string>& arguments, const std::function<void()>& before = {}) {
    return Running(root(), arguments, before).wait();
  }

  // Into out(), whatever an earlier run has left there.
  std::vector<std::string> train(std::vector<std::string> more, const char* data = "mnist") const {
    more.emplace_back("--overwrite");
    return train_into_out(more, data);
  }
  std::vector<std::string> train_into_out(const std::vector<std::string>& more,
                                          const char* data = "mnist") const {
    std::vector<std::string> all = {"train", "--data", data,           "--batch",   "16", "--lr",
                                    "0.001", "--out",  out().string(), "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  nlohmann::json summary() const { return nlohmann::json::parse(read_file(out() / "summary.json")); }

  // Blocks until rank 0 has made three steps, whatever their numbers, and calls `meanwhile` again and again.
  void wait_for_steps(const std::function<void()>& meanwhile = [] {}) const {
    const auto metrics = out() / "metrics.jsonl";
    const auto made = [&] {
      std::ifstream lines(metrics);
      int steps = 0;
      for (std::string line; std::getline(lines, line);)
        steps += line.find("\"event\":\"step\"") != std::string::npos;
      return steps;
    };
    wait_until([&] {
      meanwhile();
      return made() >= 3;
    });
  }

  // Blocks until the text is in metrics.jsonl of this run, which may remove that file and begin anew
  // meanwhile.
  static void wait_for(const std::string& text, const std::filesystem::path& run) {
    wait_until([&] {
      std::ifstream lines(run / "metrics.jsonl");
      for (std::string line; std::getline(lines, line);)
        if (line.find(text) != std::string::npos) return true;
      return false;
    });
  }

  void expect_refused(const std::vector<std::string>& arguments, const std::string& word) {
    const Ended e = run(arguments);
    EXPECT_EQ(e.code, 2) << e.error;
    EXPECT_EQ(std::ranges::count(e.error, '\n'), 1) << e.error;
    EXPECT_NE(e.error.find(word), std::string::npos) << e.error;
    EXPECT_FALSE(std::filesystem::exists(out())) << word;
  }

  static void expect_gone(const std::vector<pid_t>& pids) {
    for (const pid_t p : pids) EXPECT_NE(::kill(p, 0), 0) << p;
  }

 private:
  ScratchFolder folder_;
};

}  // namespace tutti
