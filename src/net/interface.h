// Under which address a process listens: never all of them at once.
#pragma once

#include <string>

namespace tutti::net {

// The address, in digits, of what people call an interface: its name (eth0), an address of this host, or the
// IPv4 network that it is in (10.0.0.0/24), which is the same on all hosts. Throws ConfigError that names the
// interfaces that there are.
std::string address_of_interface(const std::string& called);

// Under which other hosts know this one: the address of its name, or of its only interface but loopback.
// Throws RunError where that does not lead to a single one.
std::string address_of_host();

// The address of a host by its name, or the address that it is already. May ask a name server. Throws
// RunError.
std::string resolve(const std::string& host);

// Whether the address, in digits, is one of this host's.
bool is_own_address(const std::string& address);

}  // namespace tutti::net
