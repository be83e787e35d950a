#include "launch/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

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
  const std::vector<int>& inherit;
  const cpu_set_t* cores;
  int network;
  int out;
  int error;
  pid_t parent;

  [[noreturn]] void become() const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // it died before we asked
    ::setpgid(0, 0);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(null, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(error, STDERR_FILENO);
    for (const int fd : inherit) ::fcntl(fd, F_SETFD, 0);
    if (cores != nullptr) ::sched_setaffinity(0, sizeof *cores, cores);
    if (network >= 0 && ::setns(network, CLONE_NEWNET) != 0) ::_exit(126);
    ::execv(program, argv);
    ::_exit(127);
  }
};

}  // namespace

Spawned spawn(const std::string& program, const std::vector<std::string>& arguments,
              const std::vector<int>& inherit, const std::vector<int>& cores, int network) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);

  Pipe out;
  Pipe error;
  const Child child{program.c_str(), argv.data(),     inherit,           cores.empty() ? nullptr : &set,
                    network,         out.write.get(), error.write.get(), ::getpid()};
  const pid_t pid = ::fork();
  if (pid < 0) throw_errno("cannot start a worker");
  if (pid == 0) child.become();
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    throw_errno("cannot watch a worker");
  }
  return {pid, std::move(pidfd), std::move(out.read), std::move(error.read)};
}

}  // namespace tutti::launch
