#include "net/inproc.h"

#include <algorithm>
#include <exception>
#include <future>
#include <map>
#include <thread>

#include "net/group.h"
#include "net/segment_transport.h"
#include "net/tcp_transport.h"

namespace tutti::net {
namespace {

// Small: what threads of a test or benchmark exchange.
constexpr std::size_t kArena = std::size_t{1} << 30;

Wire wire_of(Medium sockets) {
  switch (sockets) {
    case Medium::sealed_sockets:
      return Wire::auth;
    case Medium::encrypted_sockets:
      return Wire::encrypt;
    default:
      return Wire::plain;
  }
}

using Connect = std::function<std::unique_ptr<Transport>(Rank)>;

void run_all(int world, const Connect& connect, const std::function<void(Transport&)>& body) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(world));
  std::vector<std::thread> threads;
  for (int r = 0; r < world; ++r) {
    threads.emplace_back([&, r] {
      try {
        const auto transport = connect(Rank{r});
        body(*transport);
      } catch (...) {
        failures[static_cast<std::size_t>(r)] = std::current_exception();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace

void run_as_threads(Medium medium, int world, Clock::duration timeout,
                    const std::function<void(Transport&)>& body) {
  run_as_threads(medium, world, unpinned_options(world, timeout), body);
}

void run_as_threads(Medium medium, int world, const TransportOptions& options,
                    const std::function<void(Transport&)>& body) {
  if (medium == Medium::memory) {
    const auto segment = std::make_shared<const Segment>(Segment::create(world, kArena));
    run_all(
        world, [&](Rank r) { return std::make_unique<SegmentTransport>(segment, r, options); }, body);
    return;
  }
  const Credentials credentials(make_secret(), {.wire = wire_of(medium)});
  std::vector<std::unique_ptr<Mesh>> meshes;
  std::vector<Endpoint> endpoints;
  for (int r = 0; r < world; ++r) {
    meshes.push_back(std::make_unique<Mesh>(Rank{r}, world, credentials, "127.0.0.1"));
    endpoints.push_back(meshes.back()->endpoint());
  }
  run_all(
      world, [&](Rank r) { return meshes[static_cast<std::size_t>(to_int(r))]->connect(endpoints, options); },
      body);
}

void run_on_hosts(const std::vector<int>& hosts, int world, Clock::duration timeout,
                  const std::function<void(Transport& all, Transport* neighbours)>& body) {
  const auto ranks = ranks_by_host(hosts);
  std::map<int, std::shared_ptr<const Segment>> segments;
  for (const auto& [host, here] : ranks) {
    segments[host] = std::make_shared<const Segment>(Segment::create(static_cast<int>(here.size()), kArena));
  }
  const TransportOptions options = unpinned_options(world, timeout);
  run_as_threads(Medium::sockets, world, options, [&](Transport& all) {
    const auto rank = static_cast<std::size_t>(to_int(all.rank()));
    if (rank >= hosts.size() || ranks.at(hosts[rank]).size() == 1) return body(all, nullptr);
    TransportOptions its_options = options;
    its_options.job_ranks = ranks.at(hosts[rank]);
    const auto place = std::ranges::find(its_options.job_ranks, all.rank()) - its_options.job_ranks.begin();
    SegmentTransport neighbours(segments.at(hosts[rank]), Rank{static_cast<int>(place)}, its_options);
    body(all, &neighbours);
  });
}

}  // namespace tutti::net
