// The program on several hosts: each a network namespace with an sshd and keys of its own. Where this machine
// lets nobody make one, that is said and the test skipped.
#include <sys/prctl.h>

#include <optional>

#include "base/error.h"
#include "base/process.h"
#include "cli/program_fixture.h"
#include "emulate/cluster.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr auto kSshd = "/usr/sbin/sshd";

class Hosts : public Program {
 protected:
  void SetUp() override {
    try {
      cluster_.emplace(config::Emulation{.hosts = 3, .link = "1gbit", .bits_per_second = 1'000'000'000}, 3);
    } catch (const ConfigError& e) {
      GTEST_SKIP() << e.what();
    }
    if (!fs::exists(kSshd)) GTEST_SKIP() << "there is no " << kSshd << "; script/setup test installs it";
    fs::create_directories("/run/sshd");  // where sshd locks itself in
    make_key("user");
    make_key("stranger");
    fs::copy_file(root() / "user.pub", root() / "authorized");
    std::ofstream known(root() / "known");
    std::ofstream config(root() / "ssh_config");
    config << "UserKnownHostsFile " << (root() / "known").string() << "\nGlobalKnownHostsFile none\n"
           << "IdentitiesOnly yes\nStrictHostKeyChecking yes\n";
    for (std::size_t i = 0; i < 2; ++i) start_sshd(i, config, known);
    // One whose network is there and on which nobody listens, and one that is let in with no key.
    config << "Host asleep\n  HostName " << cluster_->place_of(2).address << "\n  IdentityFile "
           << (root() / "user").string() << "\n";
    config << "Host stranger\n  HostName " << cluster_->place_of(1).address << "\n  HostKeyAlias host1\n"
           << "  IdentityFile " << (root() / "stranger").string() << "\n";
  }

  void TearDown() override {
    for (const pid_t pid : sshd_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

  // From host 0, as somebody who is logged in there.
  Ended run_there(const std::vector<std::string>& arguments) {
    return run(arguments, [&] { in_host(0); });
  }
  std::vector<std::string> train_on(const std::string& hosts, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--hosts", hosts, "--ssh-config", (root() / "ssh_config").string()});
    return train(more);
  }

  void in_host(std::size_t i) const {
    // A network is a thread's own; the process that follows has only this one.
    in_network_for_good(cluster_->place_of(i).network);
  }

  // Processes of this program whose network is that of a host, but for sshd's.
  std::vector<pid_t> processes_on(std::size_t host) const {
    const auto network =
        fs::read_symlink("/proc/self/fd/" + std::to_string(cluster_->place_of(host).network));
    std::vector<pid_t> found;
    std::error_code gone;
    for (const auto& process : fs::directory_iterator("/proc")) {
      const auto pid = process.path().filename().string();
      if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
      if (fs::read_symlink(process.path() / "ns/net", gone) != network) continue;
      if (fs::read_symlink(process.path() / "exe", gone) == fs::canonical(Running::program()))
        found.push_back(std::stoi(pid));
    }
    return found;
  }

  // Sooner or later; bounded by the test's time limit.
  void expect_nothing_left() const {
    for (std::size_t host = 0; host < 2; ++host) {
      while (!processes_on(host).empty()) std::this_thread::yield();
    }
  }

  std::vector<pid_t> sshd_;

 private:
  static void in_network_for_good(int network) {
    if (::setns(network, CLONE_NEWNET) != 0) ::_exit(125);
  }

  void make_key(const std::string& name) const {
    const auto command = fmt::format("ssh-keygen -q -t ed25519 -N '' -f '{}'", (root() / name).string());
    ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
  }

  void start_sshd(std::size_t i, std::ofstream& config, std::ofstream& known) {
    const std::string name = fmt::format("host{}", i);
    const auto key = root() / ("key-of-" + name);
    make_key(key.filename());
    const auto settings = root() / ("sshd-" + name);
    std::ofstream(settings) << "ListenAddress " << cluster_->place_of(i).address << "\nHostKey "
                            << key.string()
                            << "\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
                            << "PasswordAuthentication no\nAuthorizedKeysFile "
                            << (root() / "authorized").string() << "\n";
    config << "Host " << name << "\n  HostName " << cluster_->place_of(i).address << "\n  HostKeyAlias "
           << name << "\n  IdentityFile " << (root() / "user").string() << "\n";
    const auto public_key = read_file(key.string() + ".pub");
    known << name << ' ' << public_key;
    if (i == 1) known << "stranger " << public_key;
    known.flush();
    config.flush();
    const auto log_file = root() / ("log-" + name);
    const int log = ::open(log_file.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      in_host(i);
      ::dup2(log, STDERR_FILENO);
      ::execl(kSshd, kSshd, "-D", "-e", "-f", settings.c_str(), nullptr);
      ::_exit(126);
    }
    ::close(log);
    sshd_.push_back(pid);
    while (read_file(log_file).find("listening") == std::string::npos) {
      ASSERT_EQ(::waitpid(pid, nullptr, WNOHANG), 0) << read_file(log_file);
      std::this_thread::yield();
    }
  }

  std::optional<emulate::Cluster> cluster_;
};

TEST_F(Hosts, TrainToEqualReplicas) {
  const Ended e = run_there(train_on("host0:2,host1:2", {"--strategy", "allreduce", "--steps", "12"}));
  ASSERT_EQ(e.code, 0) << e.error;
  const auto s = summary();
  EXPECT_EQ(s["workers"], 4) << "as many as the hosts have room for";
  EXPECT_EQ(s["config"]["wire"], "auth");
  EXPECT_EQ(s["replicas_sha256"].size(), 4U);
  for (const auto& replica : s["replicas_sha256"]) EXPECT_EQ(replica, s["parameters_sha256"]);
  expect_nothing_left();
}

TEST_F(Hosts, ServersAreDealtToThem) {
  const Ended e = run_there(train_on(
      "host0:1,host1:1", {"--strategy", "ps-sync", "--servers", "2", "--steps", "8", "--workers", "2"}));
  ASSERT_EQ(e.code, 0) << e.error;
  EXPECT_EQ(summary()["servers"], 2);
  for (const auto& replica : summary()["replicas_sha256"]) EXPECT_EQ(replica, summary()["parameters_sha256"]);
  expect_nothing_left();
}

TEST_F(Hosts, ThatCannotBeUsedAreNamed) {
  struct Case {
    std::string hosts;
    std::vector<std::string> more;
    int code;
    std::string said;
  };
  const auto other_version = root() / "other-version";
  std::ofstream(other_version)
      << "#!/bin/sh\necho '{\"agent\":{\"version\":\"0.0.1\",\"address\":\"\",\"caller\":\"\"}}'\n"
         "exec cat\n";
  fs::permissions(other_version, fs::perms::owner_all);
  for (const Case& c :
       {Case{"host0:1,asleep:1", {}, 1, "host asleep (rank 1) cannot be reached"},
        Case{"host0:1,stranger:1", {}, 1, "host stranger (rank 1) cannot be reached"},
        Case{"host0:1,nowhere.invalid:1", {}, 1, "host nowhere.invalid (rank 1) cannot"},
        Case{"host0:1,host1:1", {"--remote-program", "/no/such/tutti"}, 2, "has no program /no/such/tutti"},
        Case{"host0:1,host1:1", {"--remote-program", other_version.string()}, 2, "has tutti 0.0.1 at"}}) {
    auto more = c.more;
    more.insert(more.end(), {"--steps", "4", "--strategy", "allreduce"});
    const Ended e = run_there(train_on(c.hosts, more));
    EXPECT_EQ(e.code, c.code) << c.hosts << ": " << e.error;
    EXPECT_NE(e.error.find(c.said), std::string::npos) << e.error;
    expect_nothing_left();
  }
}

// Its agent and its workers are killed at once, so that nobody there says goodbye.
TEST_F(Hosts, OneThatDiesInTheMiddleIsNamedAndNothingIsLeft) {
  Running running(root(), train_on("host0:1,host1:2", {"--strategy", "allreduce", "--steps", "100000"}),
                  [&] { in_host(0); });
  wait_for_steps();
  for (const pid_t pid : processes_on(1)) ::kill(pid, SIGKILL);
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 1);
  EXPECT_NE(e.error.find("host host1 (ranks 1 to 2) was lost"), std::string::npos) << e.error;
  expect_nothing_left();
}

TEST_F(Hosts, InterruptSavesOnAllOfThemAtTheSameStep) {
  Running running(root(), train_on("host0:1,host1:1", {"--strategy", "allreduce", "--steps", "100000"}),
                  [&] { in_host(0); });
  wait_for_steps();
  ::kill(running.pid(), SIGINT);
  const Ended e = running.wait();
  EXPECT_EQ(e.code, 128 + SIGINT) << e.error;
  // Hosts that ended after different steps would wait for each other until they are stopped.
  EXPECT_NE(e.error.find("all 2 processes have ended"), std::string::npos) << e.error;
  EXPECT_FALSE(fs::is_empty(out() / "checkpoints"));
  expect_nothing_left();
}

TEST_F(Hosts, BadOnesAreRefused) {
  expect_refused(train_on("-oProxyCommand=x:1"), "is no name of a host");
  expect_refused(train_on("host0:1,host0:1"), "is there twice");
  expect_refused(train_on("host0:2", {"--workers", "3"}), "for which --hosts have room");
  expect_refused(train_on("host0:2", {"--emulate", "hosts=2,link=1gbit"}),
                 "--hosts are given, which are real");
}

}  // namespace
}  // namespace tutti
