#include "fetch/http.h"

#include <algorithm>
#include <array>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/vector_body.hpp>
#include <optional>
#include <span>

#include "base/deadline.h"
#include "fetch/url.h"
#include "fetch/web_stream.h"

namespace tutti::fetch {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;

using Parser = http::response_parser<http::vector_body<unsigned char>>;

constexpr std::size_t kPiece = 64 << 10;

struct Reply {
  std::vector<std::byte> body;
  std::string location;  // of a redirect; then there is no body
};

// Whether an answer gets on: asked after every piece of it.
class Pace {
 public:
  Pace(const HttpLimits& limits, Clock::time_point started)
      : limits_(limits), started_(started), window_began_(Clock::now()) {}

  // Why it has to end, or nothing. `length` is how long the body will be at most.
  std::optional<std::string> too_slow(std::size_t arrived, std::uint64_t length) {
    const auto now = Clock::now();
    in_window_ += arrived;
    const auto total = limits_.total_base + std::chrono::seconds(length / limits_.total_bytes_per_second);
    if (now - started_ > total) return fmt::format("it takes longer than {}", text(total));
    if (now - window_began_ < limits_.window) return std::nullopt;
    if (in_window_ < limits_.least_bytes_in_window) {
      return fmt::format("it is too slow: {} bytes in {}, less than {}", in_window_, text(limits_.window),
                         limits_.least_bytes_in_window);
    }
    window_began_ = now;
    in_window_ = 0;
    return std::nullopt;
  }

 private:
  static std::string text(std::chrono::milliseconds time) {
    return fmt::format("{} s", std::chrono::duration<double>(time).count());
  }

  const HttpLimits& limits_;
  const Clock::time_point started_;
  Clock::time_point window_began_;
  std::uint64_t in_window_ = 0;
};

// One request on one connection, of a download that began at `started`.
class Download {
 public:
  Download(const Url& url, const HttpLimits& limits, const HttpProgress& progress, Clock::time_point started)
      : url_(url),
        limits_(limits),
        progress_(progress),
        stream_(url, limits.step_timeout),
        pace_(limits, started) {
    parser_.body_limit(limits.max_bytes);
  }

  Reply run() {
    send_request();
    while (!parser_.is_header_done()) advance();
    const auto& head = parser_.get();
    const unsigned status = head.result_int();
    constexpr std::array kRedirects = {301U, 302U, 303U, 307U, 308U};
    if (std::ranges::find(kRedirects, status) != kRedirects.end()) {
      const auto location = head[http::field::location];
      if (location.empty()) fail("a redirect that leads nowhere");
      return {{}, std::string(location.data(), location.size())};
    }
    if (status != 200) {
      throw HttpStatusError(status, fmt::format("cannot download {}: the server answered {} {}", url_.text(),
                                                status, std::string(head.reason())));
    }
    return {read_body(), ""};
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw RunError(fmt::format("cannot download {}: reading the answer: {}", url_.text(), why));
  }

  void send_request() {
    const bool usual_port = url_.port == (url_.tls ? "443" : "80");
    const std::string request = fmt::format(
        "GET {} HTTP/1.1\r\nHost: {}{}{}\r\nUser-Agent: tutti\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        url_.target, url_.host, usual_port ? "" : ":", usual_port ? "" : url_.port);
    stream_.write(std::as_bytes(std::span(request)));
  }

  // Parses what is buffered, or reads more if that is not enough.
  void advance() {
    beast::error_code error;
    if (buffer_.size() > 0) {
      const std::size_t used = parser_.put(buffer_.data(), error);
      buffer_.consume(used);
      if (error && error != http::error::need_more) explain(error);
      if (used > 0) return;
    }
    const auto room = buffer_.prepare(kPiece);
    const std::size_t got = stream_.read({static_cast<std::byte*>(room.data()), room.size()});
    buffer_.commit(got);
    if (got > 0) return check_pace(got);
    error = {};
    parser_.put_eof(error);
    if (error) explain(error);
  }

  void check_pace(std::size_t arrived) {
    const bool known = parser_.is_header_done() && parser_.content_length();
    if (const auto why = pace_.too_slow(arrived, known ? *parser_.content_length() : limits_.max_bytes)) {
      fail(*why);
    }
  }

  [[noreturn]] void explain(const beast::error_code& error) const {
    if (error == http::error::body_limit) fail("it is larger than it should be");
    if (error == http::error::partial_message || error == http::error::end_of_stream) {
      fail(fmt::format("it was cut short after {} bytes of the body", parser_.get().body().size()));
    }
    fail(error.message());
  }

  std::vector<std::byte> read_body() {
    const auto length = parser_.content_length();
    const std::uint64_t total = length ? *length : 0;
    const auto& body = parser_.get().body();
    parser_.eager(true);
    while (!parser_.is_done()) {
      const std::size_t before = body.size();
      advance();
      if (progress_ && body.size() != before) progress_(body.size(), total);
    }
    const auto bytes = std::as_bytes(std::span(body));
    return {bytes.begin(), bytes.end()};
  }

  const Url& url_;
  const HttpLimits& limits_;
  const HttpProgress& progress_;
  WebStream stream_;
  Pace pace_;
  Parser parser_;
  beast::flat_buffer buffer_;
};

}  // namespace

std::vector<std::byte> http_get(const std::string& url, const HttpLimits& limits,
                                const HttpProgress& progress) {
  const auto started = Clock::now();
  Url at = parse_url(url);
  for (int hops = 0; hops <= limits.max_redirects; ++hops) {
    Reply reply = Download(at, limits, progress, started).run();
    if (reply.location.empty()) return std::move(reply.body);
    at = follow(at, reply.location);
  }
  throw RunError(fmt::format("cannot download {}: more than {} redirects", url, limits.max_redirects));
}

}  // namespace tutti::fetch
