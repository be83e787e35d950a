// Downloads over http and https.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tutti::fetch {

// The server answered, with a status that is neither 200 nor a redirect.
struct HttpStatusError : RunError {
  HttpStatusError(unsigned s, const std::string& text) : RunError(text), status(s) {}
  unsigned status;
};

struct HttpLimits {
  std::uint64_t max_bytes = 0;  // of the body
  std::chrono::milliseconds step_timeout{
      30'000};  // for each step: resolve, connect, handshake, every piece of body
  int max_redirects = 5;
  // A server that sends a byte now and then never exceeds the time of a step. An answer of which fewer bytes
  // than these arrive in a window ends the download: 1 KiB/s over a minute.
  std::chrono::milliseconds window{60'000};
  std::uint64_t least_bytes_in_window = 60 << 10;
  // What the whole download may take, redirects included: this long, and a second more for each so many bytes
  // of the body.
  std::chrono::milliseconds total_base{600'000};
  std::uint64_t total_bytes_per_second = 4 << 10;
};

// Bytes so far, and in all; 0 where the server does not say.
using HttpProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// The body at `url`. For https the server's certificate is checked against the system's store and the host's
// name. Blocks, at most as long as the limits say; throws ConfigError for a bad address, else RunError, in
// one line that names the address and the step.
std::vector<std::byte> http_get(const std::string& url, const HttpLimits& limits,
                                const HttpProgress& progress);

}  // namespace tutti::fetch
