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
  const auto words = row(old.out, {"host1", "yes", "0.0.1"});
  ASSERT_FALSE(words.empty()) << old.out;
  EXPECT_EQ(words.back(), kVersion) << "why it cannot be used";
  expect_nothing_left();
}

// The port at the end of a row that says who could not reach whom where; 0 if it is no such row.
int port_in_vain(const std::vector<std::string>& words, const std::string& from, const std::string& to,
                 const std::string& address) {
  if (words.size() != 11) return 0;
  const std::vector<std::string> said(words.begin() + 2, words.end() - 1);
  if (said != std::vector<std::string>{"cannot", "connect:", from, "could", "not", "reach", to, "at"})
    return 0;
  return words.back().starts_with(address + ":") ? std::stoi(words.back().substr(address.size() + 1)) : 0;
}

// Hosts that ssh reaches, and whose ranks do not reach each other.
TEST_F(Doctor, APairThatCannotConnectIsARowAndHidesNoOther) {
  make_hosts(3);
  if (IsSkipped()) return;
  change_network(1, "ip", "route add blackhole 10.77.1.2/32");
  const Ended e = examine("host0,host1,host2");
  EXPECT_EQ(e.code, 1) << e.out;
  EXPECT_EQ(row(e.out, {"host0", "host1"}).size(), 8U) << e.out;
  EXPECT_EQ(row(e.out, {"host0", "host2"}).size(), 8U) << e.out;
  EXPECT_GT(port_in_vain(row(e.out, {"host1", "host2"}), "host2", "host1", "10.77.1.1"), 0) << e.out;
  EXPECT_NE(e.out.find("problem: host2 could not reach host1 at 10.77.1.1:"), std::string::npos) << e.out;
  expect_nothing_left();
}

// ssh reaches the host; its ranks do not reach the launcher.
TEST_F(Doctor, AHostThatCannotReachTheLauncherIsNamed) {
  make_hosts(2);
  if (IsSkipped()) return;
  // What sshd answers goes on; all else from host 1 to host 0 does not.
  change_network(1, "ip", "rule add to 10.77.1.0/32 ipproto tcp sport 22 lookup main priority 10");
  change_network(1, "ip", "rule add blackhole to 10.77.1.0/32 priority 20");
  const Ended e = examine("localhost,host1");
  EXPECT_EQ(e.code, 1) << e.out;
  const std::string why = "host1 could not reach the launcher, where ranks meet, at 10.77.1.0:";
  EXPECT_NE(e.out.find("cannot connect: " + why), std::string::npos) << e.out;
  EXPECT_NE(e.out.find("problem: " + why), std::string::npos) << e.out;
  expect_nothing_left();
}

// The hosts are on two networks, on one of which two of them do not reach each other.
TEST_F(Doctor, LooksAtTheInterfaceAndPortsOfTheJob) {
  make_hosts(3);
  if (IsSkipped()) return;
  for (std::size_t host = 0; host < 3; ++host)
    change_network(host, "ip", fmt::format("address add 10.88.0.{}/24 dev eth0", host + 1));
  change_network(1, "ip", "route add blackhole 10.88.0.3/32");
  EXPECT_EQ(examine("host0,host1,host2").code, 0) << "on the network of ssh";

  const Ended e =
      examine("host0,host1,host2", {"--interface", "10.88.0.0/24", "--port-range", "20100-20101"});
  EXPECT_EQ(e.code, 1) << e.out;
  EXPECT_EQ(row(e.out, {"host0", "host1"}).size(), 8U) << e.out;
  EXPECT_EQ(row(e.out, {"host0", "host2"}).size(), 8U) << e.out;
  const int port = port_in_vain(row(e.out, {"host1", "host2"}), "host2", "host1", "10.88.0.2");
  EXPECT_TRUE(port == 20100 || port == 20101) << e.out;

  const Ended few = examine("host0:2,host1:2", {"--port-range", "20100-20101"});
  EXPECT_EQ(few.code, 1) << few.out;
  EXPECT_NE(few.out.find("problem: host host0 needs 3 ports for 2 processes and the launcher, and "
                         "20100-20101 has 2"),
            std::string::npos)
      << few.out;
  EXPECT_EQ(few.out.find("problem: host host1"), std::string::npos) << few.out;

  const Ended none = examine("host0,host1", {"--interface", "eth7"});
  EXPECT_EQ(none.code, 1) << none.out;
  EXPECT_EQ(row(none.out, {"host0", "host1", "cannot", "connect:"}).empty(), false) << none.out;
  EXPECT_NE(none.out.find("--interface eth7 is no interface"), std::string::npos) << none.out;
  expect_nothing_left();
}

TEST_F(Doctor, RefusesPortsThatAreNoneAndPortsOfNoJob) {
  expect_refused({"doctor", "-H", "localhost", "--port-range", "many"}, "many");
  expect_refused({"doctor", "--port-range", "20100-20101"}, "name them with --hosts");
}

// Its agent is ours, but for the time that it says it has.
TEST_F(Doctor, NamesAHostWhoseClockIsOff) {
  make_hosts(2);
  if (IsSkipped()) return;
  for (const int off_s : {100, -100}) {
    const auto other_clock = root() / fmt::format("clock{}", off_s);
    std::ofstream(other_clock) << "#!/usr/bin/python3\n"
                               << "import json, subprocess, sys\n"
                               << "agent = subprocess.Popen(['" << Running::program()
                               << "', *sys.argv[1:]],\n"
                               << "                         stdout=subprocess.PIPE, text=True)\n"
                               << "for line in agent.stdout:\n"
                               << "    message = json.loads(line)\n"
                               << "    if 'clock' in message: message['clock'][1] += " << off_s << "\n"
                               << "    print(json.dumps(message), flush=True)\n"
                               << "sys.exit(agent.wait())\n";
    fs::permissions(other_clock, fs::perms::owner_all);
    const Ended e = examine("localhost,host1", {"--remote-program", other_clock.string()});
    EXPECT_EQ(e.code, 0) << "it keeps no job from running: " << e.out << e.error;
    const std::string begin = "note: the clock of host host1 is ";
    const auto at = e.out.find(begin);
    ASSERT_NE(at, std::string::npos) << e.out;
    EXPECT_NEAR(std::stod(e.out.substr(at + begin.size())), 100, 1) << e.out;
    EXPECT_NE(e.out.find(off_s > 0 ? " s ahead of this one's" : " s behind of this one's", at),
              std::string::npos)
        << e.out;
    EXPECT_EQ(e.out.find("clock of host localhost"), std::string::npos) << e.out;
    EXPECT_EQ(row(e.out, {"localhost", "host1"}).size(), 8U) << e.out;
    expect_nothing_left();
  }
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
