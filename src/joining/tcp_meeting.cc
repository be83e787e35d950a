#include "joining/tcp_meeting.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/process.h"

namespace tutti::joining {
namespace {

// Once all are there, one may prepare, or train, for hours while the others wait for its word. What ends the
// wait is the end of its process or the silence of its host; this is for a process that somebody has stopped.
constexpr auto kLongestWait = std::chrono::hours(24);

// Rank 0 is the first to give up, so that it can tell the others why.
constexpr auto kGrace = std::chrono::seconds(5);

// What a dying rank 0 may spend on telling the others.
constexpr auto kLastWords = std::chrono::seconds(2);

// A host that falls silent is noticed after 10 + 4 * 5 s.
void notice_silence(int fd) {
  const auto set = [&](int name, int value) { ::setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value); };
  set(TCP_KEEPIDLE, 10);
  set(TCP_KEEPINTVL, 5);
  set(TCP_KEEPCNT, 4);
  set(TCP_USER_TIMEOUT, 30'000);
}

// What rank 0 says: a letter, and texts with their lengths before them.
enum class Word : char { texts = 't', failure = 'f', usage = 'u' };

std::string pack(Word word, const std::vector<std::string>& texts) {
  std::string message(1, static_cast<char>(word));
  for (const std::string& text : texts) {
    const std::uint64_t length = text.size();
    message.append(reinterpret_cast<const char*>(&length), sizeof length);
    message += text;
  }
  return message;
}

// The texts. Throws what rank 0 has failed of.
std::vector<std::string> unpack(const std::string& message) {
  std::vector<std::string> texts;
  for (std::size_t at = 1; at < message.size();) {
    std::uint64_t length = 0;
    TUTTI_CHECK(message.size() - at >= sizeof length);
    std::memcpy(&length, message.data() + at, sizeof length);
    at += sizeof length;
    TUTTI_CHECK(message.size() - at >= length);
    texts.push_back(message.substr(at, length));
    at += length;
  }
  TUTTI_CHECK(!message.empty());
  if (message[0] == static_cast<char>(Word::usage)) throw ConfigError(texts.at(0));
  if (message[0] == static_cast<char>(Word::failure)) throw RunError(texts.at(0));
  return texts;
}

}  // namespace

TcpHost::TcpHost(const std::string& address, PortRange ports, const net::Secret& secret, int world)
    : address_(address), world_(world) {
  constexpr std::size_t kOthers = 256;  // what a process has open beside, with room to spare
  const auto callers = static_cast<std::size_t>(world);
  allow_descriptors(2 * callers + net::Acceptor::kPending + kOthers);
  acceptor_ = std::make_unique<net::Acceptor>(
      io_, address, ports, secret, net::kRendezvous,
      // One that counts more processes than we do is let in, to be told so.
      [this](Rank from) { return to_int(from) > 0 && !guests_.contains(from); },
      [this](Rank from, net::Tcp::socket socket, const net::SessionKeys& keys) {
        UniqueFd fd(socket.release());
        net::prepare_data_socket(fd.get());
        notice_silence(fd.get());
        guests_.try_emplace(from, net::Connection{std::move(fd), keys}, Rank{0}, from);
        newcomers_.push_back(from);
      },
      net::Acceptor::kPending + callers);
}

TcpHost::~TcpHost() = default;

net::Endpoint TcpHost::endpoint() const {
  const auto e = acceptor_->endpoint();
  return {e.address().to_string(), e.port()};
}

// "1, 4"; empty if all have come.
std::string TcpHost::missing() const {
  std::string names;
  for (int r = 1; r < world_; ++r) {
    if (!guests_.contains(Rank{r})) names += fmt::format("{}{}", names.empty() ? "" : ", ", r);
  }
  return names;
}

void TcpHost::wait_for_all(Deadline deadline) {
  telling_failures([&] {
    while (static_cast<int>(guests_.size()) < world_ - 1 && !deadline.passed()) {
      io_.run_one_for(deadline.left());
      compare_worlds();
    }
    if (const auto names = missing(); !names.empty()) {
      const auto refused = acceptor_->rejected_connections();
      throw RunError(fmt::format(
          "rank 0: waited {:.0f} s at {}:{} for rank {}, which did not come{}",
          std::chrono::duration<double>(deadline.waited()).count(), endpoint().host, endpoint().port, names,
          refused == 0 ? ""
                       : fmt::format("; {} connections were refused: they did not know the secret of the job",
                                     refused)));
    }
    send_all(pack(Word::texts, {}), Deadline::in(kGrace));
  });
  acceptor_.reset();
}

// The first that each one says is how many it counts.
void TcpHost::compare_worlds() {
  for (const Rank r : std::exchange(newcomers_, {})) {
    const std::string theirs = guests_.at(r).receive(Deadline::in(kGrace));
    if (theirs != std::to_string(world_))
      throw ConfigError(fmt::format("rank {} counts {} processes, and rank 0 {}", to_int(r), theirs, world_));
  }
}

// Whatever ends the meeting here is told to the others, as far as they hear it.
template <typename Work>
void TcpHost::telling_failures(const Work& work) {
  try {
    work();
  } catch (const std::exception& e) {
    const bool usage = dynamic_cast<const UsageError*>(&e) != nullptr;
    const auto message = pack(usage ? Word::usage : Word::failure, {e.what()});
    for (auto& [rank, guest] : guests_) {
      try {
        guest.send(message, Deadline::in(kLastWords));
      } catch (const RunError&) {  // it has gone, too
      }
    }
    throw;
  }
}

void TcpHost::collect(std::vector<std::string>& texts, Deadline deadline) {
  std::vector<pollfd> fds(texts.size(), pollfd{-1, POLLIN, 0});
  for (const auto& [rank, guest] : guests_) fds[static_cast<std::size_t>(to_int(rank))].fd = guest.fd();
  for (std::size_t left = guests_.size(); left > 0;) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
    const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(ms));
    if (ready < 0 && errno != EINTR) throw_errno("poll");
    for (std::size_t i = 1; i < fds.size() && ready >= 0; ++i) {
      if (fds[i].fd < 0) continue;
      const Rank rank{static_cast<int>(i)};
      if (ready == 0) throw Timeout({Rank{0}, rank, "the meeting", deadline.waited()});
      if (fds[i].revents == 0) continue;
      texts[i] = guests_.at(rank).receive(deadline);
      fds[i].fd = -1;
      --left;
    }
  }
}

void TcpHost::send_all(const std::string& message, Deadline deadline) {
  for (auto& [rank, guest] : guests_) guest.send(message, deadline);
}

std::vector<std::string> TcpHost::all_gather(const std::string& mine) {
  const auto deadline = Deadline::in(kLongestWait);
  std::vector<std::string> texts(static_cast<std::size_t>(world_));
  texts[0] = mine;
  telling_failures([&] {
    collect(texts, deadline);
    send_all(pack(Word::texts, texts), deadline);
  });
  return texts;
}

TcpGuest::TcpGuest(net::Connection to_host, Rank rank, int world, Clock::duration timeout)
    : host_(std::move(to_host), rank, Rank{0}), rank_(rank), world_(world) {
  notice_silence(host_.fd());
  const auto deadline = Deadline::in(timeout + kGrace);
  host_.send(std::to_string(world), deadline);
  unpack(host_.receive(deadline));
}

std::string TcpGuest::address() const {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (::getsockname(host_.fd(), reinterpret_cast<sockaddr*>(&own), &length) != 0) throw_errno("getsockname");
  char text[INET6_ADDRSTRLEN] = "";
  const void* digits = own.ss_family == AF_INET
                           ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&own)->sin_addr)
                           : &reinterpret_cast<const sockaddr_in6*>(&own)->sin6_addr;
  ::inet_ntop(own.ss_family, digits, text, sizeof text);
  return text;
}

std::vector<std::string> TcpGuest::all_gather(const std::string& mine) {
  const auto deadline = Deadline::in(kLongestWait);
  host_.send(mine, deadline);
  auto texts = unpack(host_.receive(deadline));
  TUTTI_CHECK(texts.size() == static_cast<std::size_t>(world_));
  return texts;
}

}  // namespace tutti::joining
