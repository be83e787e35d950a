// The engine native in a test: where its buffers lie, and its ranks as threads.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "collectives/engine_contract.h"
#include "collectives/native.h"
#include "net/inproc.h"

namespace tutti::collectives::fixture {

inline constexpr auto kPatience = std::chrono::seconds(60);

// Where the buffer lies and how it travels. On hosts, ranks of two: even ones on one, odd ones on the other.
enum class Way { in_place, shared_messages, sockets, hosts_in_place, hosts };

struct Setting {
  Way way;
  std::optional<Algorithm> algorithm;
};

inline void run_on_hosts(const std::vector<int>& hosts, std::optional<Algorithm> algorithm,
                         const std::function<void(Collectives&)>& body) {
  net::run_on_hosts(hosts, static_cast<int>(hosts.size()), kPatience,
                    [&](net::Transport& t, net::Transport* neighbours) {
                      NativeEngine all(t, algorithm, {hosts, neighbours});
                      body(all);
                    });
}

inline void run(const Setting& s, int world, const std::function<void(Collectives&)>& body) {
  if (s.way == Way::hosts || s.way == Way::hosts_in_place) {
    std::vector<int> hosts;
    for (int r = 0; r < world; ++r) hosts.push_back(r % 2);
    return run_on_hosts(hosts, s.algorithm, body);
  }
  const auto medium = s.way == Way::sockets ? net::Medium::sockets : net::Medium::memory;
  net::run_as_threads(medium, world, kPatience, [&](net::Transport& t) {
    NativeEngine all(t, s.algorithm);
    body(all);
  });
}

inline contract::Memory memory_of(Way way) {
  return way == Way::in_place || way == Way::hosts_in_place ? contract::Memory::allocated
                                                            : contract::Memory::heap;
}

}  // namespace tutti::collectives::fixture
