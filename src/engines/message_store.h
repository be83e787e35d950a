// A store of keys and values for c10d, by messages of the job's own transport: nobody is let in who has not
// proved the job's secret, and no port is opened for it.
//
// Whoever sets a key tells all others at once, and whoever wants one takes in what has come until it is
// there. Values are few and small (Gloo's addresses): what is sent before anybody reads it fits into the
// transport's buffers.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "base/deadline.h"
#include "net/transport.h"

namespace tutti::engines {

// One thread uses it, and nobody else the transport, until close(). The transport outlives it.
class MessageStore final : public c10d::Store {
 public:
  // A wait is given up when nobody in the job has made progress for `timeout`.
  MessageStore(net::Transport& transport, Clock::duration timeout);

  // A collective call: returns when every rank has made it, with no message left on its way. Keys that are
  // there stay. Throws PeerLost, Timeout.
  void close();

  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  // Blocks until somebody has set it. Throws PeerLost, Timeout.
  std::vector<std::uint8_t> get(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override { return static_cast<std::int64_t>(values_.size()); }
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

  // Nobody asks for these: they throw RunError.
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  c10::intrusive_ptr<c10d::Store> clone();  // newer libtorch declares it

 private:
  void tell(Rank peer, const std::string& message);
  void take_in(const std::vector<Rank>& peers);

  net::Transport& transport_;
  const Clock::duration timeout_;
  std::vector<Rank> open_;  // peers that may still say something
  std::map<std::string, std::vector<std::uint8_t>> values_;
};

}  // namespace tutti::engines
