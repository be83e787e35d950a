#include "emulate/tool.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>

#include "base/deadline.h"
#include "base/error.h"
#include "base/file.h"
#include "launch/spawn.h"

namespace tutti::emulate {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

// Reads both until their ends; false if the deadline passes first.
bool read_to_end(const UniqueFd& out, std::string& said, const UniqueFd& error, std::string& complained,
                 Deadline deadline) {
  std::array<pollfd, 2> fds = {pollfd{out.get(), POLLIN, 0}, pollfd{error.get(), POLLIN, 0}};
  const std::array<std::string*, 2> texts = {&said, &complained};
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

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string path_of_tool(const std::string& name) {
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"}) {
    if (std::filesystem::exists(folder + name)) return folder + name;
  }
  throw ConfigError(
      fmt::format("--emulate needs `{}`, which is not installed (apt-get install iproute2)", name));
}

std::string run_tool(const ToolRun& run) {
  const std::string program = path_of_tool(run.name);
  auto arguments = run.arguments;
  auto inherit = run.inherit;
  UniqueFd commands;
  if (!run.commands.empty()) {
    commands = make_memory_file("tutti-batch", 0);
    write_all(commands.get(), std::as_bytes(std::span(run.commands)), "cannot write commands");
    ::lseek(commands.get(), 0, SEEK_SET);
    arguments.insert(arguments.end(), {"-batch", fmt::format("/proc/self/fd/{}", commands.get())});
    inherit.push_back(commands.get());
  }
  const auto child = launch::spawn(program, arguments, {.inherit = inherit, .network = run.network});
  std::string said;
  std::string complained;
  const bool ended = read_to_end(child.out, said, child.error, complained, Deadline::in(kPatience));
  if (!ended) ::kill(child.pid, SIGKILL);
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  if (!ended) throw RunError(fmt::format("`{}` did not end within {} s", run.name, kPatience.count()));
  if (status != 0) {
    throw RunError(fmt::format("`{}` said: {}", run.name, first_line(complained)));
  }
  return said;
}

}  // namespace tutti::emulate
