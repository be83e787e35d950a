// What is on the disk at every moment of a save: the calls that matter are watched on their way to the
// kernel.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "base/file.h"
#include "base/scratch_folder.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/small_checkpoint.h"

namespace {

struct Call {
  std::string name;
  std::string path;  // that it made durable, moved or removed
};
std::function<void(const Call&)> watcher;
bool exchanges = true;  // whether two names can change places, which some file systems cannot do

void tell(const char* name, const std::string& path) {
  if (watcher) watcher({name, path});
}

std::string path_of(int fd) {
  std::string path(4096, '\0');
  const ssize_t n = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(), path.size());
  return path.substr(0, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
}

}  // namespace

// These stand before the C library's.
extern "C" {
int fsync(int fd) {
  tell("fsync", path_of(fd));
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
int rename(const char* from, const char* to) noexcept {
  tell("rename", from);
  return static_cast<int>(::syscall(SYS_rename, from, to));
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  tell("rename", from);
  if (!exchanges) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}
int unlink(const char* path) noexcept {
  tell("remove", path);
  return static_cast<int>(::syscall(SYS_unlink, path));
}
int rmdir(const char* path) noexcept {
  tell("remove", path);
  return static_cast<int>(::syscall(SYS_rmdir, path));
}
int remove(const char* path) noexcept {
  tell("remove", path);
  struct stat what {};
  const bool folder = ::lstat(path, &what) == 0 && S_ISDIR(what.st_mode);
  return static_cast<int>(::syscall(folder ? SYS_rmdir : SYS_unlink, path));
}
}

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;

class Watched : public ::testing::Test {
 protected:
  ~Watched() override {
    watcher = nullptr;
    exchanges = true;
  }
  std::vector<Call> calls_of(const std::function<void()>& act) {
    std::vector<Call> calls;
    watcher = [&](const Call& call) { calls.push_back(call); };
    act();
    watcher = nullptr;
    return calls;
  }
  static std::size_t index_of(const std::vector<Call>& calls, const std::string& name,
                              const std::string& part) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].name == name && calls[i].path.find(part) != std::string::npos) return i;
    }
    ADD_FAILURE() << "no " << name << " of " << part;
    return calls.size();
  }
  const ScratchFolder run_;
};

TEST_F(Watched, AFileIsOnTheDiskBeforeItHasItsNameAndItsFolderAfter) {
  const auto path = run_.path() / "file";
  const auto calls = calls_of([&] { write_file_atomically(path, std::string_view("text")); });
  const auto synced = index_of(calls, "fsync", "file.");
  const auto named = index_of(calls, "rename", "file.");
  EXPECT_LT(synced, named);
  ASSERT_EQ(calls.back().name, "fsync");
  EXPECT_EQ(calls.back().path, run_.path().string());
}

TEST_F(Watched, ACheckpointIsOnTheDiskBeforeItHasItsNameAndItsFolderAfter) {
  const auto calls = calls_of([&] { SmallCheckpoint().save_to(run_.path(), 3); });
  std::size_t published = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].name == "rename" && calls[i].path.ends_with("step-3.partial")) published = i;
  }
  ASSERT_GT(published, 0U);
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "manifest.json"}) {
    EXPECT_LT(index_of(calls, "fsync", file), published) << file;
  }
  EXPECT_LT(index_of(calls, "fsync", "step-3.partial"), published);
  bool folder_after = false;
  for (std::size_t i = published; i < calls.size(); ++i) {
    folder_after =
        folder_after || (calls[i].name == "fsync" && calls[i].path == (run_.path() / "checkpoints").string());
  }
  EXPECT_TRUE(folder_after);
}

TEST_F(Watched, AWholeCheckpointStandsAtEveryMomentOfReplacingIt) {
  SmallCheckpoint small;
  small.save_to(run_.path(), 3);
  small.bias[0] = 9;
  int moments = 0;
  watcher = [&](const Call&) {
    const auto act = std::exchange(watcher, nullptr);  // looking is no saving
    ++moments;
    EXPECT_NO_THROW(load(step_folder(run_.path(), 3))) << moments;
    watcher = act;
  };
  small.save_to(run_.path(), 3);
  watcher = nullptr;
  EXPECT_GT(moments, 8);
  EXPECT_EQ(parameters_digest(load(step_folder(run_.path(), 3)).model.tensors()),
            parameters_digest(small.model()));
}

// There the old one stands aside for a moment; who finds it so puts it back (train/run_folder.h).
TEST_F(Watched, ACheckpointIsReplacedWhereNamesCannotChangePlacesToo) {
  SmallCheckpoint small;
  small.save_to(run_.path(), 3);
  small.bias[0] = 9;
  exchanges = false;
  small.save_to(run_.path(), 3);
  EXPECT_EQ(parameters_digest(load(step_folder(run_.path(), 3)).model.tensors()),
            parameters_digest(small.model()));
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(run_.path() / "checkpoints")) {
    left.push_back(entry.path().filename());
  }
  EXPECT_EQ(left, std::vector<std::string>{"step-3"});
}

}  // namespace
}  // namespace tutti::checkpoint
