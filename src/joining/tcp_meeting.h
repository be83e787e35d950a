// A meeting over TCP: rank 0 listens, all others come to it, prove the secret, and tell and hear through it.
//
// A process that ends, or whose host falls silent for half a minute, ends the meeting for all, and all are
// told who it was. Strangers at the port change nothing; they are counted.
#pragma once

#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/port_range.h"
#include "joining/channel.h"
#include "net/acceptor.h"
#include "rendezvous/meeting.h"

namespace tutti::joining {

// Rank 0's end.
class TcpHost final : public rendezvous::Meeting {
 public:
  // Listens. Throws RunError.
  TcpHost(const std::string& address, PortRange ports, const net::Secret& secret, int world);
  ~TcpHost() override;

  net::Endpoint endpoint() const;

  // Takes in all others, then listens no more. Throws RunError that names the ranks that have not come, and
  // ConfigError where one of them counts other processes than we.
  void wait_for_all(Deadline deadline);

  Rank rank() const override { return Rank{0}; }
  int world() const override { return world_; }
  std::string address() const override { return address_; }
  std::vector<std::string> all_gather(const std::string& mine) override;

 private:
  std::string missing() const;
  void compare_worlds();
  void collect(std::vector<std::string>& texts, Deadline deadline);
  void send_all(const std::string& message, Deadline deadline);
  template <typename Work>
  void telling_failures(const Work& work);

  const std::string address_;
  const int world_;
  std::map<Rank, Channel> guests_;
  std::vector<Rank> newcomers_;  // who have not said yet how many they count
  boost::asio::io_context io_;
  std::unique_ptr<net::Acceptor> acceptor_;  // until all are there
};

// Every other rank's end.
class TcpGuest final : public rendezvous::Meeting {
 public:
  // Over a connection that rank 0 has let in. Blocks until rank 0 says that all are there. Throws RunError,
  // ConfigError.
  TcpGuest(net::Connection to_host, Rank rank, int world, Clock::duration timeout);

  Rank rank() const override { return rank_; }
  int world() const override { return world_; }
  std::string address() const override;
  std::vector<std::string> all_gather(const std::string& mine) override;

 private:
  Channel host_;
  Rank rank_;
  int world_;
};

}  // namespace tutti::joining
