#include "config/hosts.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/scratch_folder.h"

namespace tutti::config {
namespace {

std::string complaint(const auto& work) {
  try {
    work();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "none";
}

TEST(Hosts, AreNamedWithTheirProcesses) {
  EXPECT_EQ(parse_hosts("host1:4,me@host2"), (std::vector<Host>{{"host1", 4}, {"me@host2", 1}}));
  EXPECT_EQ(parse_hosts("fe80::1,[fe80::2]:3"), (std::vector<Host>{{"fe80::1", 1}, {"[fe80::2]", 3}}));
  EXPECT_EQ(parse_hosts(""), std::vector<Host>{});
  EXPECT_EQ(text_of(parse_hosts("a:2,b")), "a:2,b:1");
  EXPECT_EQ(slots_of(parse_hosts("a:2,b")), 3);
}

// ssh would take such a name for one of its options.
TEST(Hosts, NamesThatAreNoneAreRefused) {
  for (const char* name : {"-oProxyCommand=x", "a b:2", "a;b", ":4", ",a", "a,"}) {
    EXPECT_NE(complaint([&] { (void)parse_hosts(name); }), "none") << name;
  }
  EXPECT_EQ(complaint([] { (void)parse_hosts("a:0"); }),
            "--hosts a:0: '0' is no number of processes between 1 and 1024");
  EXPECT_EQ(complaint([] { (void)parse_hosts("a:2,b,a"); }),
            "--hosts a:2,b,a: host a is there twice; say its processes in one number");
}

TEST(Hosts, FilesHaveOneALine) {
  const ScratchFolder folder;
  const auto path = (folder.path() / "hosts").string();
  std::ofstream(path) << "# two\nhost1 slots=4\n\nhost2:2  # small\nhost3\n";
  EXPECT_EQ(read_hostfile(path), (std::vector<Host>{{"host1", 4}, {"host2", 2}, {"host3", 1}}));
  std::ofstream(path) << "host1\nhost2 max=3\n";
  EXPECT_EQ(complaint([&] { (void)read_hostfile(path); }),
            "--hostfile " + path + ", line 2: must be HOST, HOST:N or HOST slots=N max_slots=M");
  std::ofstream(path) << "host1   \nhost2 slots=2 \t# small\n";
  EXPECT_EQ(read_hostfile(path), (std::vector<Host>{{"host1", 1}, {"host2", 2}})) << "blanks at the end";
  std::ofstream(path) << "# none\n";
  EXPECT_EQ(complaint([&] { (void)read_hostfile(path); }), "--hostfile " + path + ": names no host");
  EXPECT_EQ(complaint([&] { (void)read_hostfile(path + "x"); }), "--hostfile " + path + "x: cannot be read");
}

TEST(Hosts, FilesOfOpenMpiAreReadWithTheirLimits) {
  const ScratchFolder folder;
  const auto path = (folder.path() / "hosts").string();
  std::ofstream(path) << "host1 slots=4 max_slots=4\nhost2 max-slots=8 slots=2\nhost3 max_slots=3\n";
  EXPECT_EQ(read_hostfile(path), (std::vector<Host>{{"host1", 4}, {"host2", 2}, {"host3", 1}}));
  for (const auto& [line, said] : std::vector<std::pair<std::string, std::string>>{
           {"host1 slots=4 max_slots=3", "slots=4 are more than max_slots=3"},
           {"host1 slots=4 max_slots=many", "'many' is no number of processes between 1 and 1024"},
           {"host1:4 slots=2", "'host1:4' says how many processes, and so do the words behind it"},
           {"host1 slots=4 max_slots=0", "'0' is no number of processes between 1 and 1024"},
           {"host1 slots= max_slots=4", "'' is no number of processes between 1 and 1024"},
           {"host1 slots=4 slots=4", "must be HOST, HOST:N or HOST slots=N max_slots=M"},
           {"host1 max_slots=4 max-slots=4", "must be HOST, HOST:N or HOST slots=N max_slots=M"},
           {"host1 slots=4 max_slots", "must be HOST, HOST:N or HOST slots=N max_slots=M"}}) {
    std::ofstream(path) << line << '\n';
    EXPECT_EQ(complaint([&] { (void)read_hostfile(path); }), "--hostfile " + path + ", line 1: " + said);
  }
}

}  // namespace
}  // namespace tutti::config
