// `tutti doctor` on several hosts (cli/hosts_fixture.h), and the snippets of the pages that need some.
#include <iterator>
#include <sstream>
#include <tuple>

#include "base/version.h"
#include "cli/hosts_fixture.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class Doctor : public Hosts {
 protected:
  Ended examine(const std::string& hosts, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"doctor", "--hosts", hosts, "--ssh-config", ssh_config()});
    return run_there(more);
  }
};

// The line of a table that begins with these words; empty if there is none.
std::vector<std::string> row(const std::string& table, const std::vector<std::string>& begin) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream text(line);
    std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
    if (words.size() > begin.size() && std::equal(begin.begin(), begin.end(), words.begin())) return words;
  }
  return {};
}

// "93.4 Mbit/s" as two words.
double mbit_per_second(const std::vector<std::string>& words, std::size_t at) {
  return std::stod(words.at(at)) * (words.at(at + 1) == "Gbit/s" ? 1000 : 1);
}

TEST_F(Doctor, ShowsHostsAndTheRateOfEachLink) {
  make_hosts(3);
  if (IsSkipped()) return;
  // What host 2 sends is a twentieth of what it receives, and the others have it all.
  change_network(2, "tc", "qdisc replace dev eth0 root tbf rate 50mbit burst 16000b latency 20ms");
  const Ended e = examine("host0,host1,host2");
  ASSERT_EQ(e.code, 0) << e.out << e.error;
  for (const char* host : {"host0", "host1", "host2"}) {
    const auto words = row(e.out, {host, "yes", kVersion});
    ASSERT_FALSE(words.empty()) << e.out;
    EXPECT_GT(std::stoi(words[3]), 0) << "cores";
  }
  // A link never carries more than its rate; how much less depends on the machine.
  for (const auto& [from, to, there, back] : {std::tuple{"host0", "host1", 1000, 1000},
                                              {"host0", "host2", 1000, 50},
                                              {"host1", "host2", 1000, 50}}) {
    const auto words = row(e.out, {from, to});
    ASSERT_EQ(words.size(), 8U) << e.out;
    EXPECT_LE(mbit_per_second(words, 2), there * 1.1) << e.out;
    EXPECT_LE(mbit_per_second(words, 4), back * 1.1) << e.out;
    EXPECT_GT(mbit_per_second(words, 2), 50 * 1.1) << e.out;
  }
  EXPECT_NE(e.out.find("note: the link between host0 and host2 has "), std::string::npos) << e.out;
  EXPECT_NE(e.error.find("measured host1 to host2, 3 of 3 pairs"), std::string::npos)
      << "progress: " << e.error;
  expect_nothing_left();
}

TEST_F(Doctor, NamesHostsThatCannotBeUsedAndGoesOn) {
  make_hosts(2);
  if (IsSkipped()) return;
  const Ended down = examine("host0,asleep,host1");
  EXPECT_EQ(down.code, 1);
  EXPECT_NE(down.out.find("problem: host asleep cannot be reached: "), std::string::npos) << down.out;
  EXPECT_EQ(row(down.out, {"asleep"}), (std::vector<std::string>{"asleep", "no"}));
  EXPECT_EQ(row(down.out, {"host0", "host1"}).size(), 8U) << "the others are measured: " << down.out;

  const auto other_version = root() / "other-version";
  std::ofstream(other_version) << "#!/bin/sh\necho '{\"agent\":{\"version\":\"0.0.1\"}}'\nexec cat\n";
  fs::permissions(other_version, fs::perms::owner_all);
  const Ended old = examine("localhost,host1", {"--remote-program", other_version.string()});
  EXPECT_EQ(old.code, 1);
  EXPECT_NE(old.out.find("problem: host host1 has tutti 0.0.1 at "), std::string::npos) << old.out;
  expect_nothing_left();
}

// A host that ssh reaches, and on whose address no rank does.
TEST_F(Doctor, SaysWhereRanksCannotConnect) {
  make_hosts(3);
  if (IsSkipped()) return;
  change_network(1, "ip", "route add blackhole 10.77.1.2/32");
  const Ended e = examine("host0,host1,host2");
  EXPECT_EQ(e.code, 1) << e.out;
  EXPECT_NE(e.out.find("problem: the hosts cannot be connected: "), std::string::npos) << e.out;
  EXPECT_NE(e.out.find("rank 2 is host2"), std::string::npos) << e.out;
  expect_nothing_left();
}

// As they stand: ssh finds the hosts because the one in PATH reads the test's configuration.
TEST_F(Hosts, SnippetsOfThePagesRun) {
  make_hosts(3);
  if (IsSkipped()) return;
  const auto bin = root() / "bin";
  fs::create_directories(bin);
  std::ofstream(bin / "ssh") << "#!/bin/sh\nexec /usr/bin/ssh -F '" << ssh_config() << "' \"$@\"\n";
  fs::permissions(bin / "ssh", fs::perms::owner_all);
  const auto log = root() / "log";
  const pid_t pid = ::fork();
  if (pid == 0) {
    in_host(0);
    const auto command = fmt::format("PATH='{}':\"$PATH\" exec {} --only hosts > '{}' 2>&1", bin.string(),
                                     TUTTI_SNIPPETS, log.string());
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(126);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0) << read_file(log);
  expect_nothing_left();
}

}  // namespace
}  // namespace tutti
