#include "exchange/servers.h"

#include <algorithm>

#include "exchange/broadcast.h"

namespace tutti::exchange {
namespace {

std::vector<ps::ClientBucket> client_buckets(grad::Buckets& buckets, bool into_gradients) {
  std::vector<ps::ClientBucket> list;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const auto parameters = buckets.parameters(b);
    const auto gradients = buckets.gradients(b);
    list.push_back({parameters, gradients, into_gradients ? gradients : parameters});
  }
  return list;
}

nlohmann::json describe_model(grad::Buckets& buckets) {
  std::vector<std::span<float>> flat;
  for (std::size_t b = 0; b < buckets.size(); ++b) flat.push_back(buckets.parameters(b));
  auto model = nlohmann::json::array();
  for (const auto& [name, tensor] : buckets.named_views(flat)) {
    model.push_back({name, tensor.sizes().vec(), name_of(DType::f32)});
  }
  return model;
}

}  // namespace

Servers::Servers(grad::Buckets& buckets, Updater& updater, net::Transport& everyone,
                 collectives::Communicator& workers, const ps::ServerOptions& options,
                 std::size_t piece_bytes, observe::Trace& trace)
    : buckets_(buckets),
      updater_(updater),
      workers_(workers),
      options_(options),
      trace_(trace),
      countdown_(buckets),
      pushed_(buckets.size()),
      client_(everyone, options, client_buckets(buckets, !servers_update()), describe_model(buckets),
              piece_bytes) {}

std::int64_t Servers::versions_a_step() const {
  return options_.policy.consistency == ps::Consistency::sync ? 1 : options_.workers;
}

void Servers::start(std::int64_t step, bool with_state) {
  if (!servers_update()) {
    steps_before_ = step;
    return start_like_first(workers_, buckets_, updater_, with_state);
  }
  const bool first = workers_.rank() == Rank{0};
  if (first) client_.start(step * versions_a_step(), with_state ? updater_.state() : Updater::State{});
  workers_.barrier("initial weights");
  if (!first) client_.pull();
  workers_.barrier("initial weights");
}

void Servers::push(std::size_t bucket) {
  pushed_[bucket] = true;
  client_.push(bucket, updater_.lr());
}

void Servers::on_gradient(grad::ParamId id) {
  if (countdown_.arrived(id)) push(buckets_.bucket_of(id));
}

void Servers::finish_step() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (!pushed_[b]) push(b);
  }
  const auto begin = Clock::now();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    client_.wait(b);
    if (!servers_update()) updater_.apply(b);
  }
  const auto end = Clock::now();
  trace_.add(observe::Lane::waiting, "servers", begin, end);
  times_ = {.busy = client_.take_busy_time(), .exposed = end - begin};
  countdown_.reset();
  pushed_.assign(pushed_.size(), false);
}

std::int64_t Servers::steps_done() const {
  return steps_before_ + client_.version() / versions_a_step();
}

void Servers::fetch_state() {
  if (!servers_update()) return;
  client_.pull();  // where others have gone on meanwhile, parameters and state belong together as nearly as
                   // can be
  client_.fetch_state(updater_.state());
}

void Servers::finish() {
  client_.leave();
  workers_.barrier("the end");
  if (servers_update()) client_.pull();
  if (workers_.rank() == Rank{0}) fetch_state();
  workers_.barrier("the end");  // what the servers tell next is all of it
  reports_ = client_.say_goodbye();
}

nlohmann::json Servers::report() const {
  return combine_reports(reports_);
}

AggregatedServers::AggregatedServers(grad::Buckets& buckets, Updater& updater, net::Transport& everyone,
                                     collectives::Communicator& workers, const ps::ServerOptions& options,
                                     std::size_t piece_bytes, observe::Trace& trace)
    : buckets_(buckets),
      updater_(updater),
      workers_(workers),
      options_(options),
      inner_(
          buckets, updater, workers,
          [this](collectives::Communicator&, collectives::Buffer buffer, std::string_view label) {
            push_and_pull(buffer, label);
          },
          trace, [this](std::size_t bucket) { apply(bucket); }) {
  if (workers.rank() == Rank{0}) {
    client_.emplace(everyone, options, client_buckets(buckets, true), describe_model(buckets), piece_bytes);
  }
}

void AggregatedServers::start(std::int64_t step, bool with_state) {
  if (client_ && servers_update()) {
    client_->start(step, with_state ? updater_.state() : Updater::State{});
    buckets_.zero_gradients();
  }
  inner_.start(step, with_state && !servers_update());
}

void AggregatedServers::push_and_pull(collectives::Buffer buffer, std::string_view label) {
  workers_.reduce(buffer, collectives::ReduceOp::average, Rank{0}, label);
  if (client_) {
    client_->push(next_, updater_.lr());
    client_->wait(next_);
  }
  next_ = (next_ + 1) % buckets_.size();  // they come in order
  workers_.broadcast(buffer, Rank{0}, label);
}

void AggregatedServers::apply(std::size_t bucket) {
  if (!servers_update()) return updater_.apply(bucket);
  std::ranges::copy(buckets_.gradients(bucket), buckets_.parameters(bucket).begin());
  std::ranges::fill(buckets_.gradients(bucket), 0.0F);
}

void AggregatedServers::fetch_state() {
  if (client_ && servers_update()) client_->fetch_state(updater_.state());
}

void AggregatedServers::finish() {
  if (client_) {
    client_->leave();
    fetch_state();
    reports_ = client_->say_goodbye();
  }
  workers_.barrier("the end");
}

std::uint64_t AggregatedServers::bytes_sent() const {
  return inner_.bytes_sent() + (client_ ? client_->bytes_sent() : 0);
}

nlohmann::json combine_reports(const std::vector<ps::ServerReport>& reports) {
  ps::ServerReport all;
  for (const ps::ServerReport& r : reports) {
    all.bytes_sent += r.bytes_sent;
    all.applied += r.applied;
    all.dropped += r.dropped;
    all.repeated += r.repeated;
    all.max_lead = std::max(all.max_lead, r.max_lead);
    for (const auto& [behind, count] : r.staleness) all.staleness[behind] += count;
  }
  double sum = 0;
  auto histogram = nlohmann::json::object();
  for (const auto& [behind, count] : all.staleness) {
    sum += static_cast<double>(behind) * static_cast<double>(count);
    histogram[std::to_string(behind)] = count;
  }
  return {{"bytes_sent_per_server", reports.empty() ? 0 : all.bytes_sent / reports.size()},
          {"pieces_applied", all.applied},
          {"pieces_dropped", all.dropped},
          {"pieces_repeated", all.repeated},
          {"max_lead", all.max_lead},
          {"staleness",
           {{"mean", all.applied > 0 ? sum / static_cast<double>(all.applied) : 0.0},
            {"max", all.staleness.empty() ? 0 : all.staleness.rbegin()->first},
            {"histogram", histogram}}}};
}

}  // namespace tutti::exchange
