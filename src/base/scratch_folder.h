// A folder of its own under the system's temporary folder, removed with all it holds when this goes out of
// scope.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace tutti {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tutti-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw_errno("cannot make a folder " + name);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    remove_tree(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tutti
