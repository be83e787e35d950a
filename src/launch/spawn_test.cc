#include "launch/spawn.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

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

TEST(Spawn, ArgumentsArriveAsTheyAre) {
  EXPECT_EQ(output_of(spawn("/usr/bin/printf", {"%s|", "a b", "", "$HOME"}, {})), "\na b||$HOME|");
}

}  // namespace
}  // namespace tutti::launch
