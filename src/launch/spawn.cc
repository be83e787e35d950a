#include "launch/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace tutti::launch {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
    read = UniqueFd(ends[0]);
    write = UniqueFd(ends[1]);
  }
};

// Everything between fork and exec: only calls that are safe there.
struct Child {
  const char* program;
  char* const* argv;
  char* const* envp;
  const std::vector<int>& inherit;
  const cpu_set_t* cores;
  int network;
  int in;  // -1: none
  int out;
  int error;
  bool is_ours;
  pid_t parent;

  [[noreturn]] void become() const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // it died before we asked
    ::setpgid(0, 0);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    if (!is_ours) {
      for (const int ignored : {SIGPIPE, SIGUSR1}) ::signal(ignored, SIG_DFL);
    }
    ::dup2(in >= 0 ? in : ::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(error, STDERR_FILENO);
    for (const int fd : inherit) ::fcntl(fd, F_SETFD, 0);
    if (cores != nullptr) ::sched_setaffinity(0, sizeof *cores, cores);
    if (network >= 0 && ::setns(network, CLONE_NEWNET) != 0) ::_exit(126);
    ::execve(program, argv, envp);
    ::_exit(127);
  }
};

// Ours with `changes`, each "NAME=value", or "NAME" to leave it out; ends with a null.
std::vector<char*> environment_with(const std::vector<std::string>& changes) {
  std::vector<char*> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const auto changed = [&](std::string_view c) { return c.substr(0, c.find('=')) == name; };
    if (std::ranges::none_of(changes, changed)) all.push_back(*entry);
  }
  for (const std::string& c : changes) {
    if (c.find('=') != std::string::npos) all.push_back(const_cast<char*>(c.c_str()));
  }
  all.push_back(nullptr);
  return all;
}

// Reads both until their ends; false if the deadline passes first.
bool read_to_end(const Spawned& child, Ran& ran, Deadline deadline) {
  std::array<pollfd, 2> fds = {pollfd{child.out.get(), POLLIN, 0}, pollfd{child.error.get(), POLLIN, 0}};
  const std::array<std::string*, 2> texts = {&ran.out, &ran.error};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (deadline.passed()) return false;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
    if (::poll(fds.data(), fds.size(), static_cast<int>(left)) <= 0) continue;
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t n = ::read(fds[i].fd, buffer, sizeof buffer);
      if (n > 0) texts[i]->append(buffer, static_cast<std::size_t>(n));
      if (n == 0) fds[i].fd = -1;
    }
  }
  return true;
}

}  // namespace

Spawned spawn(const std::string& program, const std::vector<std::string>& arguments,
              const SpawnOptions& options) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const std::vector<char*> envp = environment_with(options.environment);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : options.cores) CPU_SET(core, &set);

  std::optional<Pipe> in;
  if (options.input) in.emplace();
  Pipe out;
  Pipe error;
  const Child child{.program = program.c_str(),
                    .argv = argv.data(),
                    .envp = envp.data(),
                    .inherit = options.inherit,
                    .cores = options.cores.empty() ? nullptr : &set,
                    .network = options.network,
                    .in = in ? in->read.get() : -1,
                    .out = out.write.get(),
                    .error = error.write.get(),
                    .is_ours = options.is_ours,
                    .parent = ::getpid()};
  const pid_t pid = ::fork();
  if (pid < 0) throw_errno("cannot start a worker");
  if (pid == 0) child.become();
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    throw_errno("cannot watch a worker");
  }
  return {pid, std::move(pidfd), std::move(out.read), std::move(error.read),
          in ? std::move(in->write) : UniqueFd()};
}

Ran run_to_end(const std::string& program, const std::vector<std::string>& arguments,
               const SpawnOptions& options, Clock::duration at_most) {
  const Spawned child = spawn(program, arguments, options);
  Ran ran;
  const bool ended = read_to_end(child, ran, Deadline::in(at_most));
  if (!ended) ::kill(child.pid, SIGKILL);
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  if (!ended)
    throw RunError(fmt::format("`{}` did not end within {} s", program.substr(program.rfind('/') + 1),
                               std::chrono::duration_cast<std::chrono::seconds>(at_most).count()));
  ran.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace tutti::launch
