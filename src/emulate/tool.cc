#include "emulate/tool.h"

#include <unistd.h>

#include <filesystem>

#include "base/deadline.h"
#include "base/error.h"
#include "base/file.h"
#include "launch/spawn.h"

namespace tutti::emulate {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

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
  const auto ran =
      launch::run_to_end(program, arguments, {.inherit = inherit, .network = run.network}, kPatience);
  if (ran.exit_code != 0) throw RunError(fmt::format("`{}` said: {}", run.name, first_line(ran.error)));
  return ran.out;
}

}  // namespace tutti::emulate
