#include "observe/jsonl_sink.h"

#include <fcntl.h>
#include <poll.h>

#include "base/error.h"

namespace tutti::observe {

JsonlSink::JsonlSink(const std::filesystem::path& path)
    : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)), name_(path.string()) {
  if (!fd_) throw_errno("cannot write " + name_);
}

void JsonlSink::emit(const Event& event) {
  write_line(to_json(event));
}

bool JsonlSink::has_room() const {
  pollfd p{fd_.get(), POLLOUT, 0};
  return ::poll(&p, 1, 0) == 1;
}

void JsonlSink::write_line(const nlohmann::json& json) {
  const std::string line = fmt::format("{}{}\n", torn_ ? "\n" : "",
                                       json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  torn_ = true;
  write_all(fd_.get(), std::as_bytes(std::span(line)), "cannot write " + name_);
  torn_ = false;
}

}  // namespace tutti::observe
