// For tests: a small http server on 127.0.0.1 with a thread of its own.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace tutti::fetch::fixture {

// Accepts connections one after another and hands each to `serve`, on a thread of its own.
class LocalServer {
 public:
  explicit LocalServer(std::function<void(UniqueFd)> serve)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), serve_(std::move(serve)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* address = reinterpret_cast<sockaddr*>(&at);
    TUTTI_CHECK(::bind(listener_.get(), address, size) == 0 && ::listen(listener_.get(), 8) == 0);
    TUTTI_CHECK(::getsockname(listener_.get(), address, &size) == 0);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] {
      while (true) {
        UniqueFd client(::accept(listener_.get(), nullptr, nullptr));
        if (!client) return;
        serve_(std::move(client));
      }
    });
  }
  ~LocalServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);  // wakes accept
    thread_.join();
  }

  int port() const { return port_; }

 private:
  UniqueFd listener_;
  std::function<void(UniqueFd)> serve_;
  int port_ = 0;
  std::thread thread_;
};

// Answers whatever it is asked with `head` and then `piece` again and again, one every few milliseconds, as
// often as it is told or until the other end hangs up.
class TricklingServer {
 public:
  TricklingServer(std::string head, std::string piece, int times)
      : head_(std::move(head)), piece_(std::move(piece)), times_(times) {}

  std::string address() const { return fmt::format("http://127.0.0.1:{}", server_.port()); }

 private:
  void serve(const UniqueFd& client) const {
    constexpr int kBetween = 3;  // milliseconds
    send(client, head_);
    for (int i = 0; i < times_; ++i) {
      pollfd hung_up{client.get(), POLLRDHUP, 0};
      if (::poll(&hung_up, 1, kBetween) != 0 || !send(client, piece_)) return;
    }
  }
  static bool send(const UniqueFd& client, const std::string& text) {
    return ::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL) > 0;
  }

  std::string head_;
  std::string piece_;
  int times_;
  LocalServer server_{[this](const UniqueFd& client) { serve(client); }};
};

// Answers "GET <target>" with exactly the bytes given for it, then closes; with 404 where there are none. An
// empty answer means silence: the connection stays open and nothing is said.
class HttpServer {
 public:
  using Answers = std::map<std::string, std::string>;

  explicit HttpServer(Answers answers)
      : answers_(std::move(answers)), server_([this](UniqueFd client) { serve(std::move(client)); }) {}

  std::string address() const { return fmt::format("http://127.0.0.1:{}", server_.port()); }

  static std::string head(const std::string& status, std::size_t length, const std::string& more = "") {
    return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n", status, length,
                       more);
  }
  static std::string ok(const std::string& body) { return head("200 OK", body.size()) + body; }
  static std::string redirect(const std::string& to) {
    return head("302 Found", 0, "Location: " + to + "\r\n");
  }

 private:
  void serve(UniqueFd client) {
    std::string request;
    char piece[512];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t n = ::recv(client.get(), piece, sizeof piece, 0);
      if (n <= 0) return;
      request.append(piece, static_cast<std::size_t>(n));
    }
    const std::size_t begin = request.find(' ') + 1;
    const auto answer = answers_.find(request.substr(begin, request.find(' ', begin) - begin));
    if (answer != answers_.end() && answer->second.empty()) {
      silent_.push_back(std::move(client));
      return;
    }
    std::string_view text = answer != answers_.end() ? std::string_view(answer->second) : kMissing;
    while (!text.empty()) {
      const ssize_t n = ::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  static constexpr std::string_view kMissing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

  Answers answers_;
  std::vector<UniqueFd> silent_;
  LocalServer server_;  // last: its thread uses the rest
};

}  // namespace tutti::fetch::fixture
