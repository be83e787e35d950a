#include "rendezvous/rehearsal.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <exception>
#include <latch>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "rendezvous/rendezvous.h"

namespace tutti::rendezvous {
namespace {

// A rendezvous on its own thread, as a launcher has it.
class Host {
 public:
  Host(int world, const net::Secret& secret)
      : rendezvous_(io_, "127.0.0.1", world, secret), runner_([this] { io_.run(); }) {}
  ~Host() {
    io_.stop();
    runner_.join();
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  net::Endpoint endpoint() const { return rendezvous_.endpoint(); }

 private:
  boost::asio::io_context io_;
  Rendezvous rendezvous_;
  std::thread runner_;
};

std::vector<net::Tcp::socket> connect_idle(boost::asio::io_context& io, const net::Endpoint& where,
                                           int count) {
  std::vector<net::Tcp::socket> idle;
  try {
    for (int i = 0; i < count; ++i) {
      idle.emplace_back(io).connect({boost::asio::ip::make_address(where.host), where.port});
    }
  } catch (const boost::system::system_error& e) {
    throw RunError(fmt::format("of {} idle connections {} could be made: {}", count, idle.size() - 1,
                               e.code().message()));
  }
  return idle;
}

}  // namespace

net::Endpoint made_up_endpoint(int rank) {
  return {fmt::format("10.{}.{}.1", rank / 256, rank % 256), static_cast<std::uint16_t>(1000 + rank)};
}

Rehearsal rehearse(int ranks, int idle_connections, Clock::duration timeout) {
  // Both ends of every connection are here.
  allow_descriptors(2 * static_cast<std::size_t>(ranks + idle_connections) + 1024);
  const auto secret = net::make_secret();
  const Host host(ranks, secret);
  boost::asio::io_context io;
  const auto silent = connect_idle(io, host.endpoint(), idle_connections);

  Rehearsal meeting;
  meeting.told.resize(static_cast<std::size_t>(ranks));
  std::exception_ptr failure;
  std::mutex guard;  // of failure
  std::latch all_there(ranks + 1);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      all_there.arrive_and_wait();
      try {
        meeting.told[static_cast<std::size_t>(r)] =
            join(host.endpoint(), secret, Rank{r}, ranks, made_up_endpoint(r), Deadline::in(timeout));
      } catch (...) {
        const std::lock_guard lock(guard);
        failure = std::current_exception();
      }
    });
  }
  all_there.arrive_and_wait();
  const auto begin = Clock::now();
  for (std::thread& t : threads) t.join();
  meeting.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (failure) std::rethrow_exception(failure);
  return meeting;
}

}  // namespace tutti::rendezvous
