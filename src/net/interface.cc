#include "net/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <vector>

#include "base/error.h"
#include "net/wire.h"

namespace tutti::net {
namespace {

struct Interface {
  std::string name;
  std::string address;  // in digits
};

std::string digits_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    // Such an address means nothing without the interface beside it.
    if (!IN6_IS_ADDR_LINKLOCAL(&v6)) ::inet_ntop(AF_INET6, &v6, text, sizeof text);
  }
  return text;
}

// Those that are up, an address each; IPv4 first.
std::vector<Interface> interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) throw_errno("cannot list network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(first, &::freeifaddrs);
  std::vector<Interface> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != family || (i->ifa_flags & IFF_UP) == 0)
        continue;
      if (auto address = digits_of(i->ifa_addr); !address.empty()) found.push_back({i->ifa_name, address});
    }
  }
  return found;
}

// Of an IPv4 address and a network like 10.0.0.0/24. One of no bits would be everywhere.
bool is_in_network(const std::string& address, const std::string& network) {
  const auto slash = network.find('/');
  in_addr one{};
  in_addr other{};
  unsigned bits = 0;
  if (slash == std::string::npos || ::inet_pton(AF_INET, network.substr(0, slash).c_str(), &one) != 1 ||
      ::inet_pton(AF_INET, address.c_str(), &other) != 1)
    return false;
  const char* last = network.data() + network.size();
  const auto [end, error] = std::from_chars(network.data() + slash + 1, last, bits);
  if (error != std::errc() || end != last || bits < 1 || bits > 32) return false;
  return (ntohl(one.s_addr ^ other.s_addr) >> (32 - bits)) == 0;
}

std::string own_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// Its addresses in digits, IPv4 first; none if the name is not known.
std::vector<std::string> addresses_of(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, &::freeaddrinfo);
  std::vector<std::string> addresses;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
      if (a->ai_family != family) continue;
      if (auto address = digits_of(a->ai_addr); !address.empty()) addresses.push_back(std::move(address));
    }
  }
  return addresses;
}

}  // namespace

std::string address_of_interface(const std::string& called) {
  std::string there;
  for (const auto& [name, address] : interfaces()) {
    if (called == name || called == address || is_in_network(address, called)) return address;
    there += fmt::format("{}{} ({})", there.empty() ? "" : ", ", name, address);
  }
  throw ConfigError(fmt::format(
      "--interface {} is no interface, address or network of this host; there are {}", called, there));
}

std::string address_of_host() {
  // Distributions give a host's own name an address of loopback, which is nothing to others.
  for (const auto& address : addresses_of(own_name())) {
    if (!is_loopback(address)) return address;
  }
  std::vector<Interface> outward;
  for (auto& i : interfaces()) {
    if (!is_loopback(i.address)) outward.push_back(std::move(i));
  }
  const bool one = !outward.empty() && std::ranges::all_of(outward, [&](const Interface& i) {
    return i.name == outward.front().name;
  });
  if (one) return outward.front().address;
  throw RunError(fmt::format(
      "the name of this host, {}, leads to no address that other hosts can reach; say which with --interface",
      own_name()));
}

std::string resolve(const std::string& host) {
  const auto addresses = addresses_of(host);
  if (addresses.empty()) throw RunError(fmt::format("the name {} leads to no address", host));
  return addresses.front();
}

bool is_own_address(const std::string& address) {
  return std::ranges::any_of(interfaces(), [&](const Interface& i) { return i.address == address; });
}

}  // namespace tutti::net
