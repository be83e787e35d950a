#include "fetch/url.h"

#include <algorithm>

#include "base/error.h"

namespace tutti::fetch {

std::string Url::text() const {
  const bool usual = port == (tls ? "443" : "80");
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return fmt::format("{}://{}{}{}{}", tls ? "https" : "http", name, usual ? "" : ":", usual ? "" : port,
                     target);
}

Url parse_url(std::string_view text) {
  const auto fail = [&](const char* why) {
    throw ConfigError(fmt::format("bad address '{}': {}", text, why));
  };
  if (std::ranges::any_of(text, [](char c) { return c <= ' ' || c > '~'; }))
    fail("a character that must be escaped");
  Url url;
  std::string_view rest = text;
  url.tls = rest.starts_with("https://");
  if (!url.tls && !rest.starts_with("http://")) fail("expected http:// or https://");
  rest.remove_prefix(url.tls ? 8 : 7);
  const std::size_t slash = std::min(rest.find_first_of("/?#"), rest.size());
  std::string_view authority = rest.substr(0, slash);
  rest.remove_prefix(slash);
  url.target = rest.substr(0, rest.find('#'));
  if (!url.target.starts_with('/')) url.target.insert(0, "/");
  if (authority.find('@') != std::string_view::npos) fail("a user name is not supported");
  std::size_t host_end = std::min(authority.find(':'), authority.size());
  if (authority.starts_with('[')) {
    host_end = std::min(authority.find(']'), authority.size());
    url.host = authority.substr(1, host_end - 1);
    host_end = std::min(host_end + 1, authority.size());
  } else {
    url.host = authority.substr(0, host_end);
  }
  authority.remove_prefix(host_end);
  url.port = url.tls ? "443" : "80";
  if (authority.starts_with(':')) url.port = authority.substr(1);
  if (url.host.empty()) fail("no host");
  if (url.port.empty() || url.port.find_first_not_of("0123456789") != std::string::npos) fail("bad port");
  return url;
}

Url follow(const Url& from, std::string_view location) {
  if (location.starts_with('/') && !location.starts_with("//")) {
    Url to = from;
    to.target = location.substr(0, location.find('#'));
    return to;
  }
  const auto fail = [&](const char* why) {
    throw RunError(fmt::format("{} redirects to '{}': {}", from.text(), location, why));
  };
  try {
    Url to = parse_url(location);
    if (from.tls && !to.tls) fail("from https to http");
    return to;
  } catch (const ConfigError&) {
    fail("not an address");
  }
  return from;
}

}  // namespace tutti::fetch
