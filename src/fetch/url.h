// Addresses of the web, as far as downloads need them.
#pragma once

#include <string>
#include <string_view>

namespace tutti::fetch {

struct Url {
  bool tls = false;
  std::string host;
  std::string port;
  std::string target;  // begins with '/'

  std::string text() const;
  bool operator==(const Url&) const = default;
};

// "http://host[:port]/path" or "https://...". Throws ConfigError on anything else, on a user name in it, and
// on characters that do not belong in an address.
Url parse_url(std::string_view text);

// Where a redirect from `from` to `location` leads; `location` may be an address or an absolute path. Throws
// RunError if it is neither, or leads from https to http.
Url follow(const Url& from, std::string_view location);

}  // namespace tutti::fetch
