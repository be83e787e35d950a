#include "ps/server.h"

#include "net/group.h"
#include "train/plan.h"
#include "train/trainer.h"

namespace tutti::train {

void serve(const Setup& setup, net::Transport& everyone, const std::vector<int>& hosts) {
  const auto options = tuning_of(setup.config, hosts).servers;
  auto order = seen_by_servers(setup.config, hosts);
  if (order.empty()) {
    ps::serve(everyone, options);
    return;
  }
  net::Survivors seen(everyone, std::move(order));
  ps::serve(seen, options);
}

}  // namespace tutti::train
