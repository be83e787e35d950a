// Who may write into a folder: one run at a time, for as long as one of its processes lives.
#pragma once

#include <filesystem>

#include "base/file.h"

namespace tutti::train {

// Lies in the folder and holds the process id of the run's launcher as text.
inline constexpr const char* kLockFile = ".tutti-lock";

// An flock(2) on that file. The kernel releases it when the last process that has the descriptor is gone,
// however it ended, so that workers which inherit it keep the folder until they are gone. The file itself
// stays: removing it would let two runs lock two files of the same name. Belongs to one thread.
class FolderLock {
 public:
  FolderLock() = default;

  // Makes the folder and the file where they are missing. Waits, for 5 seconds at most, for the workers of a
  // launcher that was killed. Throws ConfigError in one line if a run holds the folder, or if folder or file
  // cannot be made.
  static FolderLock take(const std::filesystem::path& folder);
  // The same where the file is there; otherwise it holds nothing and changes nothing.
  static FolderLock take_if_there(const std::filesystem::path& folder);

  explicit operator bool() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }  // for children to inherit

 private:
  explicit FolderLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace tutti::train
