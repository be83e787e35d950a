// How the secret of a meeting comes to processes of one host, where nothing else carries it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/file.h"
#include "net/auth.h"
#include "net/dial.h"

namespace tutti::joining {

// Where rank 0 is, and the secret, told through a file in a folder that is the user's alone: for processes of
// one host. Opening follows no links, and a folder or file that another user owns or could read is refused.
class Notice {
 public:
  // `folder` is made if it is not there; `job` tells this job from others. Throws RunError.
  Notice(std::filesystem::path folder, const std::string& job);
  // Takes away what put_up() has made.
  ~Notice();
  Notice(const Notice&) = delete;
  Notice& operator=(const Notice&) = delete;

  struct Content {
    net::Endpoint where;
    net::Secret secret{};
    bool operator==(const Content&) const = default;
  };

  // By rank 0. What a process that was killed has left is replaced. Throws RunError where another process
  // that lives has put up one for the same job.
  void put_up(const Content& content);
  void take_down();

  // By the others. Nothing if there is none (yet).
  std::optional<Content> read() const;

 private:
  UniqueFd folder_;
  std::filesystem::path path_;  // for messages
  std::string name_;
  UniqueFd own_;  // the file that we have put up, locked
};

}  // namespace tutti::joining
