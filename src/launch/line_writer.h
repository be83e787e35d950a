// JSON as lines to a descriptor, without ever blocking the one who writes.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"

namespace tutti::launch {

// Runs on the thread that runs `io`. What cannot be written now waits in memory; if the reader has gone, or
// more than kMostWaiting bytes wait for it, everything later is dropped: that it is gone shows elsewhere.
class LineWriter : public std::enable_shared_from_this<LineWriter> {
 public:
  static std::shared_ptr<LineWriter> to(boost::asio::io_context& io, UniqueFd fd) {
    return std::shared_ptr<LineWriter>(new LineWriter(io, std::move(fd)));
  }

  void write(const nlohmann::json& json) {
    if (!descriptor_.is_open()) return;
    // Programs may print anything; what is no UTF-8 is replaced.
    waiting_ += json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
    if (waiting_.size() > kMostWaiting) return close();
    if (writing_.empty()) begin();
  }

  // The reader sees the end; what waits is lost.
  void close() {
    boost::system::error_code ignored;
    descriptor_.close(ignored);
    waiting_.clear();
  }

  std::size_t waiting_bytes() const { return writing_.size() + waiting_.size(); }
  bool idle() const { return writing_.empty() && waiting_.empty(); }

  static constexpr std::size_t kMostWaiting = 64 << 20;

 private:
  LineWriter(boost::asio::io_context& io, UniqueFd fd) : descriptor_(io, fd.release()) {}

  void begin() {
    writing_.swap(waiting_);
    boost::asio::async_write(descriptor_, boost::asio::buffer(writing_),
                             [self = shared_from_this()](boost::system::error_code e, std::size_t) {
                               self->writing_.clear();
                               if (e) return self->close();
                               if (!self->waiting_.empty()) self->begin();
                             });
  }

  boost::asio::posix::stream_descriptor descriptor_;
  std::string writing_;
  std::string waiting_;
};

}  // namespace tutti::launch
