#include "exchange/servers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "exchange/broadcast.h"

namespace tutti::exchange {
namespace {

std::vector<ps::ClientBucket> client_buckets(const Parts& parts, bool into_gradients) {
  grad::Buckets& buckets = parts.buckets;
  std::vector<ps::ClientBucket> list;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const auto parameters = buckets.parameters(b);
    const auto gradients = buckets.gradients(b);
    list.push_back({parameters, gradients, into_gradients ? gradients : parameters});
    // The last of a worker's nodes is in the first place, and is pushed last.
    const int nodes = parts.shards != nullptr ? parts.shards->nodes() : 1;
    for (int p = 1; p < nodes; ++p) list.back().earlier.push_back(buckets.place(b, p));
  }
  return list;
}

ps::Contents contents_of(const Parts& parts, const Tuning& tuning) {
  ps::Contents c{
      .piece_bytes = tuning.piece_bytes > 0 ? tuning.piece_bytes : ps::usual_piece_bytes(parts.everyone),
      .tables = shapes_of(parts.tables),
      .partitions = tuning.partitions};
  const auto flat = parts.buckets.all_parameters();
  for (const auto& bucket : flat) c.buckets.push_back(bucket.size());
  for (const auto& [name, tensor] : parts.buckets.named_views(flat)) {
    c.model.push_back({name, tensor.sizes().vec(), name_of(DType::f32)});
  }
  return c;
}

// Those that push as one; null where this worker is alone.
collectives::Collectives* workers_of_host(collectives::Collectives& workers,
                                          const ps::ServerOptions& options) {
  return options.workers == 1 ? &workers : workers.neighbours();
}

}  // namespace

Servers::Servers(const Parts& parts, const Tuning& tuning)
    : parts_(parts),
      options_(tuning.servers),
      departures_(parts.buckets),
      walk_(parts.buckets),
      connection_(parts.everyone, tuning.servers, contents_of(parts, tuning)),
      pieces_(connection_, client_buckets(parts, !servers_update())),
      row_client_(connection_, client_tables(parts.tables, parts.workers, parts.shards)),
      rows_(parts.tables, parts.updater, row_client_, parts.shards) {}

std::int64_t Servers::versions_a_step() const {
  return options_.policy.consistency == ps::Consistency::sync ? 1 : options_.workers;
}

void Servers::start(std::int64_t step, bool with_state) {
  auto& workers = parts_.workers;
  if (!servers_update()) {
    steps_before_ = step;
    return start_like_first(workers, parts_.buckets, parts_.updater, with_state);
  }
  const bool first = workers.rank() == Rank{0};
  if (first) {
    const auto state = with_state ? parts_.updater.state() : Updater::State{};
    pieces_.start(step * versions_a_step(), state);
    row_client_.start(step * versions_a_step(), state);
  }
  workers.barrier("initial weights");  // the servers have them: who pulled before would get zeros
  if (!first) pull_all();
  workers.barrier("initial weights");  // all have them: a push would change what is still being pulled
}

void Servers::pull_all() {
  pieces_.pull();
  rows_.fetch_all();
}

void Servers::on_gradient(grad::ParamId id) {
  if (departures_.arrived(id) && !holds_back()) {
    departures_.leave_full([this](std::size_t bucket) { push(bucket); });
  }
}

// Servers that only average pass on what cannot be used, so that all workers see it.
void Servers::push(std::size_t bucket) {
  if (parts_.shards != nullptr) parts_.shards->complete(bucket);
  parts_.updater.finite().own_gradient(bucket);
  pieces_.push(bucket, parts_.updater.lr());
}

// What comes before `end`, phase by phase: a worker without samples has not stopped between two of them, and
// must agree with the others about each. Whether the last one was used.
bool Servers::push_held_back(std::size_t end) {
  bool usable = true;
  while (departures_.next() < end) {
    const std::size_t phase = parts_.buckets.layout(departures_.next()).phase;
    usable = decide(departures_.next(), walk_.end_of(phase));
    const auto bringing = usable ? ps::PushKind::gradient : ps::PushKind::nothing;
    departures_.leave_phase(phase, [&](std::size_t bucket) {
      pieces_.push(bucket, parts_.updater.lr(), ps::Reply::parameters, bringing);
    });
  }
  return usable;
}

// Whether the gradients of these buckets, and of the tables if they are the last, can be used. Models with
// tables have one phase.
bool Servers::decide(std::size_t first, std::size_t end) {
  FiniteGuard& finite = parts_.updater.finite();
  bool usable = end < parts_.buckets.size() || rows_.collect();
  for (std::size_t b = first; b < end; ++b) {
    if (parts_.shards != nullptr) parts_.shards->complete(b);
    usable = finite.own_gradient(b) && usable;
  }
  // Workers that keep step agree: else servers would update from the gradients of some in a step that the
  // others count as skipped. Where they do not keep step each decides for itself.
  if (finite.skips() && keeps_step()) usable = true_for_all(parts_.workers, usable, "gradients are finite");
  if (!usable) {
    finite.skip();
  } else if (parts_.updater.clips()) {
    parts_.updater.clip();
  }
  return usable;
}

void Servers::take_in(std::size_t bucket) {
  pieces_.wait(bucket);
  if (!servers_update()) parts_.updater.apply(bucket);
}

void Servers::finish_phase(std::size_t phase) {
  if (holds_back()) {
    push_held_back(walk_.end_of(phase));
  } else {
    departures_.leave_phase(phase, [this](std::size_t bucket) { push(bucket); });
  }
  const auto begin = Clock::now();
  walk_.finish_phase(phase, [this](std::size_t bucket) { take_in(bucket); });
  const auto end = Clock::now();
  parts_.trace.add(observe::Lane::waiting, "servers", begin, end);
  exposed_ += end - begin;
}

void Servers::finish_step() {
  const std::size_t all = parts_.buckets.size();
  bool usable = true;
  if (!holds_back()) {
    departures_.leave_rest([this](std::size_t bucket) { push(bucket); });
  } else {
    usable = all > 0 ? push_held_back(all) : decide(0, 0);
  }
  const auto begin = Clock::now();
  if (parts_.tables.size() > 0) rows_.finish_step(usable);
  walk_.finish_step([this](std::size_t bucket) { take_in(bucket); });
  const auto end = Clock::now();
  parts_.trace.add(observe::Lane::waiting, "servers", begin, end);
  times_ = {.busy = connection_.take_busy_time(), .exposed = std::exchange(exposed_, {}) + (end - begin)};
  departures_.reset();
}

std::int64_t Servers::steps_done() const {
  return steps_before_ + std::min(pieces_.version(), row_client_.version()) / versions_a_step();
}

void Servers::fetch_state() {
  if (!servers_update()) return;
  // The parameters once more, right before the state: where others have gone on meanwhile the two belong
  // together as nearly as can be.
  pull_all();
  const auto state = parts_.updater.state();
  pieces_.fetch_state(state);
  row_client_.fetch_state(state);
}

// Of all workers, or of those that are left.
void Servers::meet_at_the_end(std::uint32_t number) {
  if (!options_.survives_workers) return parts_.workers.barrier("the end");
  parts_.everyone.board().barrier_of_survivors(parts_.workers.rank(), options_.workers, number,
                                               options_.timeout, "the end");
}

void Servers::finish(Afterwards afterwards) {
  connection_.leave();
  meet_at_the_end(1);  // nobody pushes any more, so all pull the same
  if (servers_update()) pull_all();
  const auto first = [&] {
    return net::first_left(parts_.everyone.board(), options_.workers) == parts_.workers.rank();
  };
  const bool fetched = first();
  if (fetched) fetch_state();
  meet_at_the_end(2);                      // what the servers tell next is all of it
  if (!fetched && first()) fetch_state();  // whose task it was has died over it
  reports_ = connection_.say_goodbye(afterwards == Afterwards::another_session);
}

std::vector<Rank> pushing_workers(std::span<const int> hosts) {
  std::vector<Rank> first;
  for (auto w = hosts.begin(); w != hosts.end(); ++w) {
    if (std::find(hosts.begin(), w, *w) == w) first.push_back(Rank{static_cast<int>(w - hosts.begin())});
  }
  return first;
}

bool share_hosts(std::span<const int> hosts) {
  const std::size_t pushing = pushing_workers(hosts).size();
  return 1 < pushing && pushing < hosts.size();
}

bool push_as_one(const Strategy& strategy, const Tuning& tuning, std::span<const int> hosts,
                 bool has_tables) {
  const auto& settings = strategy.settings;
  const bool reads = std::ranges::find(settings, "local_aggregation") != settings.end();
  const bool skips = tuning.servers.role == ps::Role::update && tuning.on_nonfinite == OnNonFinite::skip;
  const bool by_rows = has_tables && takes_rows(strategy, tuning);
  return reads && share_hosts(hosts) && tuning.shards == 0 && tuning.servers.policy.backup == 0 && !skips &&
         !by_rows;
}

std::vector<Rank> pushers_first(std::span<const int> hosts, int servers) {
  const std::vector<Rank> pushing = pushing_workers(hosts);
  std::vector<Rank> order = pushing;
  for (int r = 0; r < static_cast<int>(hosts.size()) + servers; ++r) {
    if (std::ranges::find(pushing, Rank{r}) == pushing.end()) order.push_back(Rank{r});
  }
  return std::ranges::is_sorted(order) ? std::vector<Rank>() : order;
}

AggregatedServers::AggregatedServers(const Parts& parts, const Tuning& tuning)
    : parts_(parts),
      options_(tuning.servers),
      host_(workers_of_host(parts.workers, options_)),
      inner_(
          parts,
          [this](collectives::Collectives&, std::size_t bucket, collectives::Buffer buffer,
                 std::string_view label) { push_and_pull(bucket, buffer, label); },
          [this](std::size_t bucket) { apply(bucket); }) {
  TUTTI_CHECK(parts.tables.size() == 0, "a host's workers do not add up rows");
  TUTTI_CHECK(!servers_update() || !parts.updater.finite().skips(),
              "what a host pushes has left before all of it is known");
  if (host_ == nullptr || host_->rank() == Rank{0}) {
    connection_.emplace(parts.everyone, options_, contents_of(parts, tuning));
    pieces_.emplace(*connection_, client_buckets(parts, true));
  }
}

void AggregatedServers::start(std::int64_t step, bool with_state) {
  if (servers_update()) {
    const bool first = parts_.workers.rank() == Rank{0};
    if (first) pieces_->start(step, with_state ? parts_.updater.state() : Updater::State{});
    if (options_.workers > 1) {
      parts_.workers.barrier("initial weights");  // the servers have them
      if (pieces_ && !first) pieces_->pull();
    }
    if (pieces_) parts_.buckets.zero_gradients();  // where the answers to a pull have landed
  }
  inner_.start(step, with_state && !servers_update());
}

// Servers take the mean of what hosts push, each of which counts once, however many workers it has.
float AggregatedServers::weight() const {
  const int here = host_ != nullptr ? host_->world() : 1;
  return static_cast<float>(here * options_.workers) / static_cast<float>(parts_.workers.world());
}

void AggregatedServers::push_and_pull(std::size_t bucket, collectives::Buffer buffer,
                                      std::string_view label) {
  // The answer lands where the gradients were (see the constructor): the buffer that was reduced is the one
  // that is broadcast, and the other workers need no memory beside theirs.
  if (host_ != nullptr) host_->reduce(buffer, collectives::ReduceOp::average, Rank{0}, label);
  if (pieces_) {
    if (const float w = weight(); w != 1) {
      for (float& gradient : parts_.buckets.gradients(bucket)) gradient *= w;
    }
    pieces_->push(bucket, parts_.updater.lr());
    pieces_->wait(bucket);
  }
  if (host_ != nullptr) host_->broadcast(buffer, Rank{0}, label);
}

void AggregatedServers::apply(std::size_t bucket) {
  if (!servers_update()) return parts_.updater.apply(bucket);
  std::ranges::copy(parts_.buckets.gradients(bucket), parts_.buckets.parameters(bucket).begin());
  std::ranges::fill(parts_.buckets.gradients(bucket), 0.0F);
}

void AggregatedServers::fetch_state() {
  if (pieces_ && servers_update()) pieces_->fetch_state(parts_.updater.state());
}

void AggregatedServers::finish(Afterwards afterwards) {
  if (connection_) connection_->leave();
  parts_.workers.barrier("the end");  // nobody pushes any more
  if (parts_.workers.rank() == Rank{0}) fetch_state();
  parts_.workers.barrier("the end");  // what the servers tell next is all of it
  if (connection_) reports_ = connection_->say_goodbye(afterwards == Afterwards::another_session);
}

std::uint64_t AggregatedServers::bytes_sent() const {
  return inner_.bytes_sent() + (connection_ ? connection_->bytes_sent() : 0);
}

observe::ServersFigures combine_reports(const std::vector<ps::ServerReport>& reports) {
  observe::ServersFigures all;
  auto& [mean, most, histogram] = all.staleness;
  for (const ps::ServerReport& r : reports) {
    all.bytes_sent_per_server += r.bytes_sent;
    all.pieces_applied += r.applied;
    all.pieces_dropped += r.dropped;
    all.pieces_repeated += r.repeated;
    all.max_lead = std::max(all.max_lead, r.max_lead);
    for (const auto& [behind, count] : r.staleness) histogram[behind] += count;
  }
  if (!reports.empty()) all.bytes_sent_per_server /= reports.size();
  double sum = 0;
  for (const auto& [behind, count] : histogram) {
    sum += static_cast<double>(behind) * static_cast<double>(count);
  }
  if (all.pieces_applied > 0) mean = sum / static_cast<double>(all.pieces_applied);
  if (!histogram.empty()) most = histogram.rbegin()->first;
  return all;
}

namespace {

std::string servers_in_words(const Tuning& tuning) {
  const auto& s = tuning.servers;
  const bool one = s.servers == 1;
  const std::string_view does = s.role == ps::Role::update ? "update" : "only average";
  return fmt::format("{} server{} that {}{}{}{}", s.servers, one ? "" : "s", does, one ? "s" : "",
                     s.policy.backup > 0 ? fmt::format(", {} backup", s.policy.backup) : "",
                     tuning.local_aggregation ? ", one push a host" : "");
}

Strategy with_servers(std::string name, std::string summary, ps::Consistency rule,
                      std::initializer_list<std::string_view> own_settings) {
  std::vector<std::string_view> settings = {"servers", "colocate", "no_sparse", "partitions"};
  settings.insert(settings.end(), own_settings);
  return {.name = std::move(name),
          .summary = std::move(summary),
          .servers = rule,
          .asynchronous = rule != ps::Consistency::sync,
          .takes_shards = rule == ps::Consistency::sync,
          .takes_uneven_inputs = true,
          .settings = std::move(settings),
          .compared_by_default = true,
          .same_traffic_every_step = rule == ps::Consistency::sync,
          .other_way = servers_in_words,
          .make = [](const Parts& p, const Tuning& tuning) -> std::unique_ptr<Exchange> {
            if (tuning.local_aggregation) return std::make_unique<AggregatedServers>(p, tuning);
            return std::make_unique<Servers>(p, tuning);
          }};
}

}  // namespace

Strategy ps_sync() {
  return with_servers("ps-sync", "parameter servers; a step waits for every worker", ps::Consistency::sync,
                      {"server_role", "backup_workers", "local_aggregation", "no_local_aggregation"});
}

Strategy ps_async() {
  return with_servers("ps-async", "parameter servers; every gradient counts as it comes",
                      ps::Consistency::async, {"damp_stale"});
}

Strategy ps_ssp() {
  return with_servers("ps-ssp", "parameter servers; nobody runs more than --staleness steps ahead",
                      ps::Consistency::ssp, {"staleness", "damp_stale"});
}

}  // namespace tutti::exchange
