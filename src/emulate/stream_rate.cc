#include "emulate/stream_rate.h"

#include <future>

#include "base/process.h"
#include "net/tcp_transport.h"

namespace tutti::emulate {
namespace {

constexpr Rank kReceiver{0};
constexpr Rank kSender{1};
constexpr std::size_t kBlock = 1 << 18;
constexpr net::Activity kDoing{"measuring the link"};

}  // namespace

double stream_rate(const launch::Place& from, const launch::Place& to, std::uint64_t bytes) {
  const auto secret = net::make_secret();
  const net::TransportOptions options{.timeout = std::chrono::seconds(30)};
  std::unique_ptr<net::Mesh> receiver;
  std::unique_ptr<net::Mesh> sender;
  in_network(to.network, [&] { receiver = std::make_unique<net::Mesh>(kReceiver, 2, secret, to.address); });
  in_network(from.network, [&] { sender = std::make_unique<net::Mesh>(kSender, 2, secret, from.address); });
  const std::vector<net::Endpoint> both = {receiver->endpoint(), sender->endpoint()};
  const std::uint64_t blocks = bytes / kBlock + 5;

  auto sending = std::async(std::launch::async, [&] {
    std::unique_ptr<net::Transport> transport;
    in_network(from.network, [&] { transport = sender->connect(both, options); });
    const std::vector<std::byte> block(kBlock);
    for (std::uint64_t i = 0; i < blocks; ++i) net::send(*transport, kReceiver, block, kDoing);
  });
  const auto transport = receiver->connect(both, options);
  std::vector<std::byte> block(kBlock);
  const std::uint64_t warm_up = blocks / 5;
  for (std::uint64_t i = 0; i < warm_up; ++i) net::receive(*transport, kSender, block, kDoing);
  const auto begin = Clock::now();
  for (std::uint64_t i = warm_up; i < blocks; ++i) net::receive(*transport, kSender, block, kDoing);
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  sending.get();
  return static_cast<double>((blocks - warm_up) * kBlock) / seconds.count();
}

}  // namespace tutti::emulate
