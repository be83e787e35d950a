// Sessions of ranks that are threads, and what they must throw.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "library/member.h"
#include "net/group.h"
#include "net/inproc.h"
#include "tutti/session.h"

namespace tutti::library {

struct MakeSession {
  static Session over(std::unique_ptr<Member> member) { return Session(std::move(member)); }
  static Member& behind(Session& session) { return *session.member_; }
};

// Runs body on `world` threads, each with its session. What a thread throws is thrown here, the lowest rank's
// first.
inline void run_sessions(int world, net::Medium medium, const std::function<void(Session&)>& body,
                         Clock::duration timeout = std::chrono::seconds(20)) {
  const auto options = net::unpinned_options(world, timeout);
  const auto secret = net::make_secret();
  net::run_as_threads(medium, world, options, [&](net::Transport& transport) {
    // The transport stays with who made it.
    Session session = MakeSession::over(std::make_unique<Member>(
        std::make_unique<net::Group>(transport, world), ConnectOptions{secret, "127.0.0.1", options}));
    body(session);
  });
}

// The same over sockets on several hosts, by rank, which have shared memory inside.
inline void run_sessions_on(const std::vector<int>& hosts, const std::function<void(Session&)>& body,
                            Clock::duration timeout = std::chrono::seconds(20)) {
  const auto world = static_cast<int>(hosts.size());
  const auto options = net::unpinned_options(world, timeout);
  const auto secret = net::make_secret();
  net::run_on_hosts(hosts, world, timeout, [&](net::Transport& transport, net::Transport* neighbours) {
    std::unique_ptr<net::Transport> here;
    if (neighbours != nullptr) here = std::make_unique<net::Group>(*neighbours, neighbours->world());
    Session session = MakeSession::over(std::make_unique<Member>(
        std::make_unique<net::Group>(transport, world), ConnectOptions{secret, "127.0.0.1", options},
        InJob{.hosts = hosts}, std::move(here)));
    body(session);
  });
}

// The action throws such an error, whose text has these words in it.
template <typename Error>
void expect_throw(const std::string& why, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown: " << why;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
  }
}

}  // namespace tutti::library
