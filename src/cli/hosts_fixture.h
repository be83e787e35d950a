// Hosts for tests: network namespaces with an sshd and keys of its own each. Where this machine lets nobody
// make one, that is said and the test skipped.
#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include <optional>
#include <set>
#include <sstream>

#include "base/error.h"
#include "cli/program_fixture.h"
#include "emulate/cluster.h"
#include "emulate/tool.h"

namespace tutti {

// "host0" to "host<N-1>" have an sshd; the host after them, "asleep", is there and nobody listens on it;
// "stranger" is host1 for somebody whom it does not know, "unknown" is host1 under a name whose key nobody
// knows, and "changed" under one that had another key. A test is at host0.
class Hosts : public Program {
 protected:
  // In a test, before anything else; false where it must be skipped, which is said.
  void make_hosts(std::size_t count, const std::string& link = "1gbit",
                  std::uint64_t bits_per_second = 1'000'000'000) {
    const auto all = static_cast<int>(count) + 1;
    try {
      cluster_.emplace(config::Emulation{.hosts = all, .link = link, .bits_per_second = bits_per_second},
                       all);
    } catch (const ConfigError& e) {
      GTEST_SKIP() << e.what();
    }
    if (!std::filesystem::exists(kSshd))
      GTEST_SKIP() << "there is no " << kSshd << "; script/setup test installs it";
    std::filesystem::create_directories("/run/sshd");  // where sshd locks itself in
    std::filesystem::create_directories(root() / "private");
    make_key("user");
    make_key("stranger");
    std::filesystem::copy_file(root() / "user.pub", root() / "authorized");
    std::ofstream known(root() / "known");
    std::ofstream config(ssh_config());
    config << "UserKnownHostsFile " << (root() / "known").string() << "\nGlobalKnownHostsFile none\n"
           << "IdentitiesOnly yes\nStrictHostKeyChecking yes\n";
    for (std::size_t i = 0; i < count; ++i) start_sshd(i, config, known);
    config << "Host asleep\n  HostName " << cluster_->place_of(count).address << "\n  IdentityFile "
           << (root() / "user").string() << "\n";
    config << "Host stranger\n  HostName " << cluster_->place_of(1).address << "\n  HostKeyAlias host1\n"
           << "  IdentityFile " << (root() / "stranger").string() << "\n";
    for (const char* name : {"unknown", "changed"}) {
      config << "Host " << name << "\n  HostName " << cluster_->place_of(1).address << "\n  HostKeyAlias "
             << name << "\n  IdentityFile " << (root() / "user").string() << "\n";
    }
    known << "changed " << read_file(root() / "stranger.pub");  // some other key
  }

  // Whatever a failed test has left on the hosts, sessions of sshd among it.
  void TearDown() override {
    for (const pid_t pid : sshd_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    for (std::size_t host = 0; cluster_ && host < static_cast<std::size_t>(cluster_->hosts()); ++host) {
      for (const pid_t pid : everything_on(host)) ::kill(pid, SIGKILL);
    }
  }

  std::string ssh_config() const { return (root() / "ssh_config").string(); }

  // From host 0, as somebody who is logged in there.
  Ended run_there(const std::vector<std::string>& arguments) {
    return run(arguments, [&] { in_host(0); });
  }
  std::vector<std::string> train_on(const std::string& hosts, std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--hosts", hosts, "--ssh-config", ssh_config()});
    return train(more);
  }

  // The calling process moves there: a network is a thread's own, and the process that follows has only this
  // one.
  void in_host(std::size_t i) const {
    enter(cluster_->place_of(i).network);
    // Open MPI tells hosts apart by their names.
    const auto name = fmt::format("host{}", i);
    if (::unshare(CLONE_NEWUTS) != 0 || ::sethostname(name.data(), name.size()) != 0) ::_exit(125);
  }

  // Lets a tool change the network of a host.
  void change_network(std::size_t host, const std::string& tool, const std::string& command) const {
    emulate::run_tool(
        {.name = tool, .commands = command + "\n", .network = cluster_->place_of(host).network});
  }

  // Processes of this program whose network is that of a host.
  std::vector<pid_t> processes_on(std::size_t host) const {
    auto found = everything_on(host);
    std::erase_if(found, [](pid_t pid) {
      std::error_code gone;
      return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", gone) !=
             std::filesystem::canonical(Running::program());
    });
    return found;
  }

  // Of every socket there that listens, the address as the kernel writes it: "0001A8C0:01BB".
  std::set<std::string> listening_on(std::size_t host) const {
    constexpr auto kListening = "0A";
    std::set<std::string> found;
    for (const char* table : {"tcp", "tcp6"}) {
      std::ifstream lines(fmt::format("/proc/{}/net/{}", sshd_.at(host), table));
      for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string number;
        std::string local;
        std::string remote;
        std::string state;
        if (words >> number >> local >> remote >> state && state == kListening) found.insert(local);
      }
    }
    return found;
  }

  // Of every process there, ssh's among them, with blanks between the words.
  std::set<std::string> command_lines_on(std::size_t host) const {
    std::set<std::string> found;
    for (const pid_t pid : everything_on(host)) {
      std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
      std::string line;
      std::getline(file, line);
      std::ranges::replace(line, '\0', ' ');
      found.insert(line);
    }
    return found;
  }

  // Sooner or later.
  void expect_nothing_left() const {
    for (std::size_t host = 0; host < sshd_.size(); ++host) {
      wait_until([&] { return processes_on(host).empty(); });
    }
  }

 private:
  static constexpr auto kSshd = "/usr/sbin/sshd";

  static void enter(int network) {
    if (::setns(network, CLONE_NEWNET) != 0) ::_exit(125);
  }

  std::vector<pid_t> everything_on(std::size_t host) const {
    const auto network =
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(cluster_->place_of(host).network));
    std::vector<pid_t> found;
    std::error_code gone;
    for (const auto& process : std::filesystem::directory_iterator("/proc")) {
      const auto pid = process.path().filename().string();
      if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
      if (std::filesystem::read_symlink(process.path() / "ns/net", gone) == network)
        found.push_back(std::stoi(pid));
    }
    return found;
  }

  void make_key(const std::string& name) const {
    const auto command = fmt::format("ssh-keygen -q -t ed25519 -N '' -f '{}'", (root() / name).string());
    ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
  }

  // All see the same files, but for the folder "private", which host 0 alone shares with the test.
  void have_private_folder(std::size_t i) const {
    if (i == 0) return;
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", (root() / "private").c_str(), "tmpfs", 0, nullptr) != 0) {
      ::_exit(124);
    }
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
      have_private_folder(i);
      ::dup2(log, STDERR_FILENO);
      ::execl(kSshd, kSshd, "-D", "-e", "-f", settings.c_str(), nullptr);
      ::_exit(126);
    }
    ::close(log);
    sshd_.push_back(pid);
    pid_t ended = 0;
    wait_until([&] {
      ended = ::waitpid(pid, nullptr, WNOHANG);
      return ended != 0 || read_file(log_file).find("listening") != std::string::npos;
    });
    ASSERT_EQ(ended, 0) << read_file(log_file);
  }

  std::vector<pid_t> sshd_;
  std::optional<emulate::Cluster> cluster_;
};

}  // namespace tutti
