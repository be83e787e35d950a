#include "exchange/router.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/deadline.h"

namespace tutti::exchange {
namespace {

// A push, the word that it was counted, a wish and the rows.
constexpr double kMessagesAStep = 4;

std::string size_text(std::size_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (b >= 1e9) return fmt::format("{:.1f} GB", b / 1e9);
  if (b >= 1e6) return fmt::format("{:.1f} MB", b / 1e6);
  if (b >= 1e3) return fmt::format("{:.1f} KB", b / 1e3);
  return fmt::format("{} B", bytes);
}

std::string share_text(double density) {
  const double percent = 100 * density;
  return percent < 1 ? fmt::format("{:.2g} % of rows", percent) : fmt::format("{:.1f} % of rows", percent);
}

}  // namespace

Route route(const ParameterFacts& p, const ClusterFacts& c) {
  const auto bytes = static_cast<double>(p.bytes);
  Route r{.parameter = p.name, .bytes = p.bytes, .density = p.density};
  r.all_reduce_seconds = 2.0 * (c.workers - 1) / c.workers * bytes / c.bytes_per_second;
  if (p.rows == 0) {
    r.reason = "dense: " + size_text(p.bytes);
    return r;
  }
  // There and back; a server's link carries the rows of all workers for its share of the table.
  const double crowd = std::max(1.0, static_cast<double>(c.workers) / c.servers);
  r.servers_seconds =
      2.0 * p.density * bytes * crowd / c.bytes_per_second + kMessagesAStep * c.seconds_per_message;
  if (r.servers_seconds < r.all_reduce_seconds) {
    r.way = Way::servers;
    r.reason = "sparse: " + share_text(p.density);
  } else if (2.0 * p.density * crowd >= 2.0 * (c.workers - 1) / c.workers) {
    r.reason = "dense: " + share_text(p.density);
  } else {
    r.reason = fmt::format("small: {}, messages cost more", size_text(p.bytes));
  }
  return r;
}

std::vector<std::string> by_servers(const std::vector<Route>& routes) {
  std::vector<std::string> names;
  for (const Route& r : routes) {
    if (r.way == Way::servers) names.push_back(r.parameter);
  }
  return names;
}

std::string_view name_of(Way way) {
  return way == Way::servers ? "servers" : "all-reduce";
}

void to_json(nlohmann::json& json, const Route& r) {
  json = {{"parameter", r.parameter},
          {"bytes", r.bytes},
          {"route", name_of(r.way)},
          {"reason", r.reason},
          {"density", r.density},
          {"all_reduce_ms", r.all_reduce_seconds * 1e3},
          {"servers_ms", r.servers_seconds * 1e3}};
}

void from_json(const nlohmann::json& json, Route& r) {
  json.at("parameter").get_to(r.parameter);
  json.at("bytes").get_to(r.bytes);
  r.way = json.at("route") == name_of(Way::servers) ? Way::servers : Way::all_reduce;
  json.at("reason").get_to(r.reason);
  json.at("density").get_to(r.density);
  r.all_reduce_seconds = json.at("all_reduce_ms").get<double>() / 1e3;
  r.servers_seconds = json.at("servers_ms").get<double>() / 1e3;
}

std::vector<std::string> table_of(std::vector<Route> routes) {
  std::ranges::stable_sort(routes, std::greater(), &Route::bytes);
  std::size_t widest = 0;
  for (const Route& r : routes) widest = std::max(widest, r.parameter.size());
  std::vector<std::string> lines;
  for (const Route& r : routes) {
    lines.push_back(fmt::format("{:<{}}  {:<10}  {}", r.parameter, widest, name_of(r.way), r.reason));
  }
  return lines;
}

ClusterFacts usual_cluster(int workers, int servers, Link link) {
  ClusterFacts c{.workers = workers, .servers = servers};
  const bool memory = link == Link::shared_memory;
  c.bytes_per_second = memory ? 8e9 : 1.25e9;  // a core's copies; 10 Gbit/s
  c.seconds_per_message = memory ? 2e-6 : 3e-5;
  return c;
}

ClusterFacts measure_cluster(collectives::Collectives& workers, int servers) {
  ClusterFacts c{.workers = workers.world(), .servers = servers};
  if (workers.world() == 1) return c;
  constexpr std::size_t kCount = std::size_t{1} << 18;
  constexpr int kTimes = 5;
  std::vector<float> large(kCount);
  // The best of a few: what the link can do, not what disturbed it.
  const auto best_of = [&](std::size_t count) {
    double best = 1e9;
    for (int i = 0; i < kTimes; ++i) {
      workers.barrier("timing the link");
      const auto begin = Clock::now();
      workers.all_reduce({large.data(), count, DType::f32}, collectives::ReduceOp::max, "timing the link");
      best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return best;
  };
  double seconds[] = {best_of(1), best_of(kCount)};
  workers.all_reduce({seconds, 2, DType::f64}, collectives::ReduceOp::max, "timing the link");
  const double n = workers.world();
  c.seconds_per_message = seconds[0] / 2;
  c.bytes_per_second = 2 * (n - 1) / n * kCount * sizeof(float) / std::max(seconds[1], 1e-9);
  return c;
}

}  // namespace tutti::exchange
