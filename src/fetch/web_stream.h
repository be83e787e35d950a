// A connection to a web server, plain or over TLS, on which nothing waits longer than a given time.
//
// Written on sockets and OpenSSL rather than on Asio: one blocking stream needs no event loop, and Asio's
// templates for TLS take minutes to compile under the sanitizers.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>

#include "fetch/url.h"

namespace tutti::fetch {

// One thread uses it. Every error is a RunError in one line: the address, the step, the reason.
class WebStream {
 public:
  // Resolves, connects and, for https, shakes hands; the certificate must be vouched for by the system's
  // store and be for the host. Each step may take `step_timeout`, but resolving may take what the system's
  // resolver allows.
  WebStream(const Url& url, std::chrono::milliseconds step_timeout);
  ~WebStream();
  WebStream(const WebStream&) = delete;
  WebStream& operator=(const WebStream&) = delete;

  void write(std::span<const std::byte> bytes);

  // Waits for some bytes, and returns how many; 0 at the end of the stream.
  std::size_t read(std::span<std::byte> out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti::fetch
