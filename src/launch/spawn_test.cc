#include "launch/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"

namespace tutti::launch {
namespace {

// What a program says until it ends.
std::string output_of(const Spawned& child) {
  std::string text;
  char letters[4096];
  ssize_t n = 0;
  while ((n = ::read(child.out.get(), letters, sizeof letters)) > 0)
    text.append(letters, static_cast<std::size_t>(n));
  int status = 0;
  EXPECT_EQ(::waitpid(child.pid, &status, 0), child.pid);
  EXPECT_EQ(status, 0);
  return "\n" + text;
}

TEST(Spawn, ChangesOfTheEnvironmentReplaceWhatHasTheirNameAndNothingElse) {
  ::setenv("TUTTI_SPAWN", "short", 1);
  ::setenv("TUTTI_SPAWN_TEST", "ours", 1);
  const auto seen = output_of(spawn("/usr/bin/env", {}, {.environment = {"TUTTI_SPAWN_TEST=theirs"}}));
  EXPECT_NE(seen.find("\nTUTTI_SPAWN=short\n"), std::string::npos) << seen;
  EXPECT_NE(seen.find("\nTUTTI_SPAWN_TEST=theirs\n"), std::string::npos) << seen;
  EXPECT_EQ(seen.find("=ours"), std::string::npos) << seen;
  EXPECT_STREQ(::getenv("TUTTI_SPAWN_TEST"), "ours");
}

TEST(Spawn, ANameWithoutAValueIsTakenOutOfTheEnvironment) {
  ::setenv("TUTTI_SPAWN", "stays", 1);
  ::setenv("TUTTI_SPAWN_TEST", "ours", 1);
  const auto seen =
      output_of(spawn("/usr/bin/env", {}, {.environment = {"TUTTI_SPAWN_TEST", "TUTTI_SPAWN_NEVER"}}));
  EXPECT_NE(seen.find("\nTUTTI_SPAWN=stays\n"), std::string::npos) << seen;
  EXPECT_EQ(seen.find("TUTTI_SPAWN_TEST"), std::string::npos) << seen;
  EXPECT_EQ(seen.find("TUTTI_SPAWN_NEVER"), std::string::npos) << seen;
}

TEST(Spawn, ArgumentsArriveAsTheyAre) {
  EXPECT_EQ(output_of(spawn("/usr/bin/printf", {"%s|", "a b", "", "$HOME"}, {})), "\na b||$HOME|");
}

TEST(Spawn, WhatWeBlockIsNotBlockedInTheChild) {
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  for (const int s : {SIGTERM, SIGINT, SIGUSR1}) ::sigaddset(&blocked, s);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const auto seen = output_of(spawn("/bin/grep", {"SigBlk", "/proc/self/status"}, {}));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(seen, "\nSigBlk:\t0000000000000000\n");
}

TEST(Spawn, WhatWeIgnoreIsIgnoredInNobodyElsesProgram) {
  const auto ignored_in_child = [](bool is_ours) {
    const auto ran = run_to_end("/bin/sh", {"-c", "grep SigIgn /proc/self/status"}, {.is_ours = is_ours},
                                std::chrono::seconds(60));
    return std::stoull(ran.out.substr(ran.out.find(':') + 1), nullptr, 16);
  };
  const auto before_pipe = ::signal(SIGPIPE, SIG_IGN);
  const auto before_usr1 = ::signal(SIGUSR1, SIG_IGN);
  constexpr auto kBoth = (1ULL << (SIGPIPE - 1)) | (1ULL << (SIGUSR1 - 1));
  EXPECT_EQ(ignored_in_child(false) & kBoth, 0U);
  EXPECT_EQ(ignored_in_child(true) & kBoth, kBoth);
  ::signal(SIGPIPE, before_pipe);
  ::signal(SIGUSR1, before_usr1);
}

// Descriptors for the two pipes, and none to watch the child with.
TEST(Spawn, ChildThatCannotBeWatchedIsEndedAndCollected) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int free = ::dup(STDOUT_FILENO);
  ::close(free);
  for (int fd = free; fd < free + 5; ++fd)
    ASSERT_EQ(::fcntl(fd, F_GETFD), -1) << "a gap among our descriptors";
  const rlimit few{.rlim_cur = static_cast<rlim_t>(free) + 4, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_THROW(spawn("/bin/sleep", {"1000"}, {}), RunError);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace tutti::launch
