// Texts between two processes over a connection that has proven the secret: nobody on the way reads them,
// changes them, or repeats one.
#pragma once

#include <string>

#include "base/aes_gcm.h"
#include "base/deadline.h"
#include "net/dial.h"

namespace tutti::joining {

// One thread uses it.
class Channel {
 public:
  // `self` and `peer` are for messages about failures.
  Channel(net::Connection connection, Rank self, Rank peer);

  int fd() const { return connection_.fd.get(); }
  Rank peer() const { return peer_; }

  // Block. Throw Timeout, PeerLost, and ProtocolError where what came was altered on its way.
  void send(const std::string& text, Deadline deadline);
  std::string receive(Deadline deadline);

 private:
  net::Connection connection_;
  Rank self_;
  Rank peer_;
  AesGcm sending_;
  AesGcm receiving_;
  std::uint64_t sent_ = 0;  // texts; the nonces of their tags
  std::uint64_t received_ = 0;
};

}  // namespace tutti::joining
