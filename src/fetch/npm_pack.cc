#include "fetch/npm_pack.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/deadline.h"
#include "base/error.h"
#include "base/file.h"

namespace tutti::fetch {
namespace {

constexpr const char* kErrors = "npm-errors.txt";

bool is_word(std::string_view text, std::string_view more) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && plain(text.front()) && std::ranges::all_of(text, [&](char c) {
    return plain(c) || more.find(c) != std::string_view::npos;
  });
}

// [@scope/]name[@version]
void check_name(const std::string& package) {
  std::string_view name = package;
  bool good = true;
  if (name.starts_with('@')) {
    const std::size_t slash = std::min(name.find('/'), name.size());
    good = is_word(name.substr(1, slash - 1), "._-");
    name.remove_prefix(std::min(slash + 1, name.size()));
  }
  if (const std::size_t at = name.find('@'); at != std::string_view::npos) {
    good = good && is_word(name.substr(at + 1), ".+-ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    name = name.substr(0, at);
  }
  if (good && is_word(name, "._-")) return;
  throw ConfigError(fmt::format("'{}' is not the name of an npm package", package));
}

class FileActions {
 public:
  FileActions() { ::posix_spawn_file_actions_init(&actions_); }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

pid_t start(const std::string& program, const std::string& package, const std::filesystem::path& folder) {
  FileActions actions;
  ::posix_spawn_file_actions_addchdir_np(actions.get(), folder.c_str());
  ::posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(actions.get(), STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(actions.get(), STDERR_FILENO, kErrors, O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
  std::array<std::string, 5> words = {program, "pack", "--ignore-scripts", "--loglevel=error", package};
  std::array<char*, 6> argv{};
  for (std::size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, program.c_str(), actions.get(), nullptr, argv.data(), environ);
  if (error == ENOENT) throw RunError(fmt::format("cannot run {}: it is not installed", program));
  if (error != 0) throw RunError(fmt::format("cannot run {}: {}", program, std::strerror(error)));
  return child;
}

// The exit status, or nothing but an exception if the time is up.
int wait_for(pid_t child, const std::string& program, std::chrono::milliseconds timeout) {
  const Deadline deadline = Deadline::in(timeout);
  int status = 0;
  while (true) {
    const pid_t done = ::waitpid(child, &status, WNOHANG);
    if (done == child) return status;
    if (done < 0 && errno != EINTR) throw_errno("cannot wait for " + program);
    if (deadline.passed()) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      throw RunError(fmt::format("{} did not end within {} s", program, timeout.count() / 1000.0));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// The line in which npm says why: the first of its errors that is more than a code.
std::string reason(const std::filesystem::path& folder) {
  std::istringstream text(read_file(folder / kErrors));
  std::string first;
  for (std::string line; std::getline(text, line);) {
    if (first.empty()) first = line;
    for (const std::string_view mark : {"npm ERR! ", "npm error "}) {
      if (!line.starts_with(mark)) continue;
      std::string rest = line.substr(mark.size());
      if (!rest.starts_with("code ") && !rest.starts_with("errno ") && !rest.starts_with("syscall "))
        return rest;
    }
  }
  return first;
}

}  // namespace

std::filesystem::path npm_pack(const std::string& package, const std::filesystem::path& folder,
                               const std::string& program, std::chrono::milliseconds timeout) {
  check_name(package);
  const int status = wait_for(start(program, package, folder), program, timeout);
  if (status != 0) throw RunError(fmt::format("npm pack {} failed: {}", package, reason(folder)));
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".tgz") return entry.path();
  }
  throw RunError(fmt::format("npm pack {} left no archive", package));
}

}  // namespace tutti::fetch
