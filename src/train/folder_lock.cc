#include "train/folder_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/deadline.h"
#include "base/error.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

// Workers die with their launcher, but not in the same instant.
constexpr auto kDying = std::chrono::seconds(5);
constexpr auto kBetweenTries = std::chrono::milliseconds(10);

[[noreturn]] void refuse(const fs::path& folder, const std::string& why) {
  throw ConfigError(fmt::format("--out {}: {}", folder.string(), why));
}

// 0 if the file does not say, as in the moment between taking the lock and writing the number.
pid_t holder_in(int fd) {
  char text[32];
  const ssize_t n = ::pread(fd, text, sizeof text, 0);
  pid_t pid = 0;
  if (n > 0) std::from_chars(text, text + n, pid);
  return pid;
}

// A process that was killed and that nobody has waited for yet is gone, too.
bool lives(pid_t pid) {
  if (::kill(pid, 0) != 0 && errno == ESRCH) return false;
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(stat, text);
  const auto end_of_name = text.rfind(')');
  return end_of_name == std::string::npos || text.compare(end_of_name, 3, ") Z") != 0;
}

void write_holder(int fd, const fs::path& folder) {
  const auto text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    refuse(folder, fmt::format("cannot write {}: {}", kLockFile, std::strerror(errno)));
  }
}

void lock(int fd, const fs::path& folder) {
  const Deadline deadline = Deadline::in(kDying);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) refuse(folder, fmt::format("cannot be locked: {}", std::strerror(errno)));
    const pid_t holder = holder_in(fd);
    if (holder > 0 && lives(holder)) refuse(folder, fmt::format("process {} trains there", holder));
    if (deadline.passed()) refuse(folder, "another process trains there");
    std::this_thread::sleep_for(kBetweenTries);
  }
  write_holder(fd, folder);
}

}  // namespace

FolderLock FolderLock::take(const fs::path& folder) {
  std::error_code e;
  fs::create_directories(folder, e);
  if (e) refuse(folder, e.message());
  UniqueFd fd(::open((folder / kLockFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd) refuse(folder, fmt::format("cannot make {} there: {}", kLockFile, std::strerror(errno)));
  lock(fd.get(), folder);
  return FolderLock(std::move(fd));
}

FolderLock FolderLock::take_if_there(const fs::path& folder) {
  UniqueFd fd(::open((folder / kLockFile).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && (errno == ENOENT || errno == ENOTDIR)) return {};
  if (!fd) refuse(folder, fmt::format("cannot open {} there: {}", kLockFile, std::strerror(errno)));
  lock(fd.get(), folder);
  return FolderLock(std::move(fd));
}

}  // namespace tutti::train
