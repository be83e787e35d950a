// Lines of a descriptor, as they come.
#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/file.h"

namespace tutti::launch {

// Calls on_line for every line of a descriptor until its end, and then on_end. It keeps itself alive until
// then, and runs on the thread that runs `io`.
class OutputReader : public std::enable_shared_from_this<OutputReader> {
 public:
  using OnLine = std::function<void(const std::string&)>;

  static std::shared_ptr<OutputReader> start(boost::asio::io_context& io, UniqueFd fd, OnLine on_line,
                                             std::size_t longest_line = kLongestLine,
                                             std::function<void()> on_end = {}) {
    std::shared_ptr<OutputReader> reader(
        new OutputReader(io, std::move(fd), std::move(on_line), longest_line, std::move(on_end)));
    reader->read();
    return reader;
  }

  // Reads no more; on_end is not called.
  void close() {
    on_end_ = {};
    descriptor_.close();
  }

  // A line longer than this is cut: nobody's output may fill our memory.
  static constexpr std::size_t kLongestLine = 1 << 20;

 private:
  OutputReader(boost::asio::io_context& io, UniqueFd fd, OnLine on_line, std::size_t longest_line,
               std::function<void()> on_end)
      : descriptor_(io, fd.release()),
        buffer_(longest_line),
        on_line_(std::move(on_line)),
        on_end_(std::move(on_end)) {}

  void read() {
    boost::asio::async_read_until(descriptor_, buffer_, '\n',
                                  [self = shared_from_this()](boost::system::error_code e, std::size_t n) {
                                    if (e == boost::asio::error::not_found) {
                                      self->emit(self->buffer_.size(), 0);  // too long: cut here
                                    } else if (e) {
                                      return self->finish();
                                    } else {
                                      self->emit(n, 1);
                                    }
                                    if (self->descriptor_.is_open()) self->read();
                                  });
  }
  void emit(std::size_t n, std::size_t terminator) {
    const auto begin = boost::asio::buffers_begin(buffer_.data());
    const std::string line(begin, begin + static_cast<std::ptrdiff_t>(n - terminator));
    buffer_.consume(n);
    on_line_(line);
  }
  void finish() {
    if (!descriptor_.is_open()) return;  // closed by us
    if (buffer_.size() > 0) emit(buffer_.size(), 0);
    if (on_end_) on_end_();
  }

  boost::asio::posix::stream_descriptor descriptor_;
  boost::asio::streambuf buffer_;
  const OnLine on_line_;
  std::function<void()> on_end_;
};

}  // namespace tutti::launch
