#include "emulate/cluster.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "base/error.h"
#include "emulate/stream_rate.h"
#include "emulate/tool.h"

namespace tutti::emulate {
namespace {

constexpr const char* kSwitchAddress = "10.77.0.1";

std::string port_of(std::size_t host) {
  return fmt::format("port{}", host);
}

// A namespace that only the descriptor holds.
UniqueFd make_network() {
  UniqueFd network;
  std::exception_ptr failure;
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      failure = std::make_exception_ptr(ConfigError(
          fmt::format("--emulate may make no network namespaces here ({}): it needs CAP_SYS_ADMIN and "
                      "CAP_NET_ADMIN",
                      std::generic_category().message(errno))));
      return;
    }
    network = UniqueFd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  }).join();
  if (failure) std::rethrow_exception(failure);
  if (!network) throw_errno("cannot open a network namespace");
  return network;
}

// The bucket holds a millisecond of the link, so that a timer that comes late loses none of it, and not less
// than ten frames. The queue behind it is as deep as a switch's: what would wait longer is dropped.
std::string shaper(const std::string& device, std::uint64_t bits_per_second) {
  constexpr std::uint64_t kLeastBurst = 16'000;
  const std::uint64_t burst = std::max(kLeastBurst, bits_per_second / 8 / 1000);
  return fmt::format("qdisc add dev {} root tbf rate {}bit burst {}b latency 20ms\n", device, bits_per_second,
                     burst);
}

void add(Traffic& t, const nlohmann::json& qdisc, bool sent) {
  (sent ? t.bytes_sent : t.bytes_received) = qdisc.at("bytes");
  (sent ? t.packets_sent : t.packets_received) = qdisc.at("packets");
  t.packets_dropped += qdisc.at("drops").get<std::uint64_t>();
}

// A shaper counts the frames that a large segment stands for; an interface counts it as one.
nlohmann::json read_shapers(int network, const std::string& device) {
  const auto text =
      run_tool({.name = "tc", .arguments = {"-s", "-j", "qdisc", "show", "dev", device}, .network = network});
  return nlohmann::json::parse(text).at(0);
}

}  // namespace

std::string address_of(std::size_t host) {
  return fmt::format("10.77.1.{}", host);
}

void require_means() {
  if (::geteuid() != 0)
    throw ConfigError("--emulate makes network namespaces and needs root (sudo tutti ...)");
  for (const char* tool : {"ip", "tc"}) path_of_tool(tool);
}

Cluster::Cluster(config::Emulation emulation, int processes) : emulation_(std::move(emulation)) {
  require_means();
  if (emulation_.hosts == 0) emulation_.hosts = processes;
  if (emulation_.hosts > config::kMostHosts) {
    throw ConfigError(
        fmt::format("--emulate: {} processes need hosts={} or fewer", processes, config::kMostHosts));
  }
  try {
    build();
  } catch (const RunError& e) {
    throw ConfigError(fmt::format("--emulate: this machine cannot: {}", e.what()));
  }
}

void Cluster::build() {
  switch_ = make_network();
  // Nothing but our traffic passes the links: no multicast queries, no IPv6 that announces itself.
  std::string in_switch = fmt::format(
      "link add lan type bridge mcast_snooping 0\n"
      "link set lan addrgenmode none up\n"
      "address add {}/16 dev lan\n",
      kSwitchAddress);
  std::string shapers;
  std::vector<int> inherit;
  for (std::size_t h = 0; h < static_cast<std::size_t>(emulation_.hosts); ++h) {
    hosts_.push_back(make_network());
    inherit.push_back(hosts_.back().get());
    in_switch += fmt::format(
        "link add {0} mtu 1500 type veth peer name eth0 mtu 1500 netns /proc/self/fd/{1}\n"
        "link set {0} master lan addrgenmode none up\n",
        port_of(h), inherit.back());
    shapers += shaper(port_of(h), emulation_.bits_per_second);
  }
  run_tool({.name = "ip", .commands = in_switch, .network = switch_.get(), .inherit = inherit});
  run_tool({.name = "tc", .commands = shapers, .network = switch_.get()});
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    run_tool({.name = "ip",
              .commands = fmt::format("link set lo up\n"
                                      "link set eth0 addrgenmode none up\n"
                                      "address add {}/16 dev eth0\n",
                                      address_of(h)),
              .network = hosts_[h].get()});
    run_tool(
        {.name = "tc", .commands = shaper("eth0", emulation_.bits_per_second), .network = hosts_[h].get()});
  }
}

launch::Place Cluster::place_of(std::size_t host) const {
  return {hosts_[host].get(), address_of(host), static_cast<int>(host)};
}

std::vector<Traffic> Cluster::traffic() const {
  std::vector<Traffic> all(hosts_.size());
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    add(all[h], read_shapers(hosts_[h].get(), "eth0"), true);
    add(all[h], read_shapers(switch_.get(), port_of(h)), false);
  }
  return all;
}

std::pair<launch::Outcome, observe::Emulated> Cluster::run(launch::JobSpec job,
                                                           const launch::Listener& listener) const {
  const int processes = launch::processes_of(job);
  job.transport = "tcp";
  job.rendezvous = {switch_.get(), kSwitchAddress};
  std::vector<std::vector<int>> ranks(hosts_.size());
  for (int p = 0; p < processes; ++p) {
    const std::size_t host = static_cast<std::size_t>(p) % hosts_.size();
    job.places.push_back(place_of(host));
    ranks[host].push_back(p);
    if (job.colocate) ranks[host].push_back(p + job.workers);
  }
  const auto before = traffic();
  const auto outcome = launch::run(job, listener);
  const auto after = traffic();
  observe::Emulated emulated{hosts(), emulation_.link, {}};
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    emulated.per_host.push_back({.host = static_cast<int>(h),
                                 .ranks = std::move(ranks[h]),
                                 .bytes_sent = after[h].bytes_sent - before[h].bytes_sent,
                                 .packets_sent = after[h].packets_sent - before[h].packets_sent,
                                 .bytes_received = after[h].bytes_received - before[h].bytes_received,
                                 .packets_received = after[h].packets_received - before[h].packets_received,
                                 .packets_dropped = after[h].packets_dropped - before[h].packets_dropped});
  }
  return {outcome, std::move(emulated)};
}

double Cluster::measure_link() const {
  if (hosts() < 2) return 0;
  return stream_rate(place_of(0), place_of(1), emulation_.bits_per_second / 8);
}

}  // namespace tutti::emulate
