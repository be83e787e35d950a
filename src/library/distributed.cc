#include "tutti/distributed.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <unordered_set>

#include "base/error.h"
#include "base/process.h"
#include "exchange/strategy.h"
#include "exchange/table_rows.h"
#include "library/member.h"
#include "library/recognise.h"
#include "net/group.h"

namespace tutti {
namespace {

using exchange::Strategy;

// A server as a rank of its own, on a thread of a worker's process.
class ServerThread {
 public:
  ServerThread(library::World& world, Rank seat, const ps::ServerOptions& options)
      : thread_([this, &world, seat, &options] {
          name_thread("server");
          try {
            ps::serve(*world.take_seat(seat), options);
          } catch (...) {
            failure_ = std::current_exception();
          }
        }) {}
  ~ServerThread() {
    if (thread_.joinable()) thread_.join();
  }
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;

  // Until the last worker has said goodbye. Throws what ended it.
  void wait() {
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
  std::thread thread_;
};

struct Plan {
  const Strategy& strategy;
  library::Recognised optimizer;
  int servers = 0;
  exchange::Tuning tuning = {};
};

void refuse(const DistributedOptions& options, const std::string& why) {
  throw ConfigError(fmt::format("strategy '{}': {}", options.strategy, why));
}

Plan plan_of(const DistributedOptions& o, library::Member& member, const torch::optim::Optimizer& optimizer) {
  const int workers = member.size();
  Plan plan{.strategy = exchange::find_strategy(o.strategy), .optimizer = library::recognise(optimizer)};
  const Strategy& s = plan.strategy;
  if (s.one_worker_only && workers > 1) refuse(o, fmt::format("there are {} processes", workers));
  if (o.servers < 0 || o.servers > workers) {
    refuse(o, fmt::format("{} servers for {} processes, of which each can have one", o.servers, workers));
  }
  if (o.sync_every < 1) refuse(o, fmt::format("sync_every is {}, but must be 1 or more", o.sync_every));
  if (o.staleness < 0) refuse(o, fmt::format("staleness is {}, but must be 0 or more", o.staleness));
  if (s.servers) plan.servers = o.servers > 0 ? o.servers : workers;

  auto& t = plan.tuning;
  t.sync_every = o.sync_every;
  t.moving_rate = o.moving_rate > 0 ? o.moving_rate : 0.9 / workers;
  t.clip_norm = o.clip_norm;
  t.on_nonfinite = o.skip_nonfinite ? exchange::OnNonFinite::skip : exchange::OnNonFinite::stop;
  t.partitions = std::max(1, plan.servers);
  t.servers.workers = workers;
  t.servers.first_server = workers;
  t.servers.servers = plan.servers;
  t.servers.policy = {
      .consistency = s.servers.value_or(ps::Consistency::sync), .workers = workers, .staleness = o.staleness};
  t.servers.timeout = member.timeout();
  if (plan.optimizer.settings) {
    t.servers.optimizer = *plan.optimizer.settings;
  } else if (s.servers == ps::Consistency::sync && !s.hybrid) {
    t.servers.role = ps::Role::mean;  // the workers call the optimizer themselves
  } else if (s.servers) {
    refuse(o, fmt::format("its servers update, and cannot by this optimizer: {}", plan.optimizer.why_not));
  }
  return plan;
}

// Those of the module that the optimizer updates: others are not trained, whatever their gradients.
std::vector<grad::Parameter> parameters_of(const torch::nn::Module& module,
                                           const torch::optim::Optimizer& optimizer,
                                           const grad::Tables& tables) {
  std::unordered_set<const c10::TensorImpl*> updated;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& p : group.params()) updated.insert(p.unsafeGetTensorImpl());
  }
  std::vector<grad::Parameter> found;
  for (auto& p : grad::trained_parameters(module)) {
    if (updated.erase(p.tensor.unsafeGetTensorImpl()) > 0 && !tables.contains(p.name))
      found.push_back(std::move(p));
  }
  if (!updated.empty()) {
    throw ConfigError(
        fmt::format("the optimizer has {} parameters that the module does not train", updated.size()));
  }
  return found;
}

}  // namespace

class Distributed::Impl {
 public:
  Impl(Session& session, library::Member& member, torch::nn::Module& module,
       torch::optim::Optimizer& optimizer, const DistributedOptions& options)
      : member_(member),
        optimizer_(optimizer),
        plan_(plan_of(options, member, optimizer)),
        world_(member.make_world(plan_.servers)),
        server_(member.rank() < plan_.servers
                    ? std::make_unique<ServerThread>(*world_, Rank{member.size() + member.rank()},
                                                     plan_.tuning.servers)
                    : nullptr),
        everyone_(world_->take_seat(Rank{member.rank()})),
        workers_(*everyone_, member.size()),
        all_(workers_, exchange::algorithm_of(plan_.strategy, "auto")),
        trace_(false, Rank{member.rank()}),
        tables_(module, exchange::takes_rows(plan_.strategy, plan_.tuning) ? grad::embedding_names(module)
                                                                           : std::vector<std::string>{}),
        buckets_(parameters_of(module, optimizer, tables_), options.bucket_bytes,
                 [this](std::size_t bytes) { return all_.allocate(bytes); }),
        updater_(buckets_, tables_, make_update(), plan_.tuning.clip_norm,
                 exchange::finite_options(plan_.strategy, plan_.tuning, all_)),
        exchange_(exchange::make_exchange(
            plan_.strategy, {buckets_, tables_, updater_, *everyone_, all_, trace_}, plan_.tuning)),
        arrived_(buckets_.parameter_count()) {
    buckets_.on_gradient([this](grad::ParamId id) { on_gradient(id); });
    tables_.on_gradient([this](std::size_t table) { on_rows(table); });
    exchange_->start(0, false);
    broadcast_rest(session, module);
  }

  void step() {
    begin_step();
    buckets_.clear_lost_gradients();
    exchange_->finish_step();
    if (exchange_->rows() != nullptr) exchange_->rows()->fetch_all();
    arrived_.assign(arrived_.size(), false);
    in_step_ = false;
    ++steps_;
  }

  void finish() {
    if (std::exchange(finished_, true)) return;
    exchange_->finish(exchange::Afterwards::nothing);
    if (server_) server_->wait();
  }

  library::Member& member() { return member_; }
  std::int64_t steps() const { return steps_; }
  std::uint64_t bytes_sent() const { return exchange_->bytes_sent(); }
  void hold(int by) { held_ += by; }

 private:
  std::unique_ptr<exchange::Update> make_update() {
    if (plan_.optimizer.settings) return exchange::flat_update(buckets_, *plan_.optimizer.settings);
    return exchange::torch_update(optimizer_);
  }

  // A step begins with its first gradient: from then on its learning rate is what it is.
  void begin_step() {
    if (std::exchange(in_step_, true)) return;
    updater_.begin_step(steps_ + 1, plan_.optimizer.settings ? library::learning_rate(optimizer_) : 0);
  }

  void on_gradient(grad::ParamId id) {
    if (held_ > 0) return;
    begin_step();
    const auto index = static_cast<std::size_t>(grad::to_int(id));
    if (arrived_[index]) {
      throw ConfigError(
          fmt::format("{} has got a second gradient in one step; call step() after each backward pass, or "
                      "hold a no_sync() in all but the last",
                      buckets_.name_of(id)));
    }
    arrived_[index] = true;
    exchange_->on_gradient(id);
  }

  void on_rows(std::size_t table) {
    if (held_ > 0) return;
    begin_step();
    exchange_->rows()->on_gradient(table);
  }

  // What no gradient changes: buffers, and parameters that are not trained.
  static void broadcast_rest(Session& session, torch::nn::Module& module) {
    for (auto& item : module.named_buffers()) {
      if (item.value().defined()) session.broadcast(item.value());
    }
    for (auto& item : module.named_parameters()) {
      if (!item.value().requires_grad()) session.broadcast(item.value());
    }
  }

  library::Member& member_;
  torch::optim::Optimizer& optimizer_;
  Plan plan_;
  const std::unique_ptr<library::World> world_;
  const std::unique_ptr<ServerThread> server_;  // outlives the transport: it ends when all have left
  const std::unique_ptr<net::Transport> everyone_;
  net::Group workers_;
  collectives::Communicator all_;
  observe::Trace trace_;
  grad::Tables tables_;
  grad::Buckets buckets_;
  exchange::Updater updater_;
  const std::unique_ptr<exchange::Exchange> exchange_;
  std::vector<bool> arrived_;  // by parameter, in this step
  std::int64_t steps_ = 0;
  int held_ = 0;  // NoSyncs that live
  bool in_step_ = false;
  bool finished_ = false;
};

Distributed::Distributed(Session& session, torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                         const DistributedOptions& options)
    : impl_(session.member_->tell_failure_of(
          [&] { return std::make_unique<Impl>(session, *session.member_, module, optimizer, options); })) {}

Distributed::~Distributed() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    finish();
  } catch (const std::exception&) {
    // The launcher has been told; there is nobody to throw it to.
  }
}

void Distributed::step() {
  impl_->member().tell_failure_of([&] { impl_->step(); });
}

NoSync Distributed::no_sync() {
  return NoSync(*this);
}

void Distributed::finish() {
  impl_->member().tell_failure_of([&] { impl_->finish(); });
}

std::int64_t Distributed::steps() const {
  return impl_->steps();
}

std::uint64_t Distributed::bytes_sent() const {
  return impl_->bytes_sent();
}

NoSync::NoSync(Distributed& training) : training_(training) {
  training_.impl_->hold(1);
}

NoSync::~NoSync() {
  training_.impl_->hold(-1);
}

}  // namespace tutti
