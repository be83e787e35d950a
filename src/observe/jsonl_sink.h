// Events as lines of JSON: into metrics.jsonl, or through a pipe to the launcher.
#pragma once

#include <filesystem>

#include "base/file.h"
#include "observe/event.h"

namespace tutti::observe {

class JsonlSink final : public EventSink {
 public:
  // Appends to a file, made if it is not there. Throws RunError.
  explicit JsonlSink(const std::filesystem::path& path);
  // Writes to an open descriptor.
  JsonlSink(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

  // Each event is one write, so lines stay whole; after a failed one the next begins on a line of its own.
  // Throws RunError.
  void emit(const Event& event) override;
  void write_line(const nlohmann::json& json);

  // Whether a pipe takes a line of up to 4 KiB without blocking.
  bool has_room() const;

 private:
  UniqueFd fd_;
  std::string name_;
  bool torn_ = false;  // the last line may have been written in part
};

}  // namespace tutti::observe
