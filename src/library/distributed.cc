#include "tutti/distributed.h"

#include <torch/utils.h>

#include <exception>
#include <optional>

#include "base/error.h"
#include "collectives/native.h"
#include "exchange/replica.h"
#include "exchange/table_rows.h"
#include "library/agree.h"
#include "library/arrivals.h"
#include "library/attendance.h"
#include "library/member.h"
#include "library/plan.h"
#include "library/recognise.h"
#include "library/resume.h"
#include "library/save.h"
#include "library/shard_work.h"
#include "library/trained.h"
#include "library/workers.h"
#include "net/group.h"
#include "optim/finite.h"
#include "ps/server_thread.h"

namespace tutti {

class Distributed::Impl {
 public:
  Impl(Session& session, library::Member& member, torch::nn::Module& module,
       torch::optim::Optimizer& optimizer, const DistributedOptions& options)
      : member_(member),
        optimizer_(optimizer),
        module_(module),
        untrained_(library::untrained_parameters(module, optimizer)),
        plan_(agreed_plan(options)),
        world_(member.make_world(plan_.servers)),
        server_(make_server()),
        everyone_(world_->take_seat(Rank{member.rank()})),
        workers_(*everyone_, member.size()),
        neighbours_(world_->take_seat_among_neighbours()),
        all_(workers_, exchange::algorithm_of(plan_.strategy, "auto"), {member.hosts(), neighbours_.get()}),
        trace_(false, Rank{member.rank()}),
        replica_(
            {module, plan_.strategy, plan_.tuning, options.bucket_bytes,
             seen_by_servers(*everyone_, reordered_), all_, trace_},
            exchange::takes_rows(plan_.strategy, plan_.tuning) ? library::tables_of(module, optimizer)
                                                               : std::vector<std::string>{},
            [&](const grad::Tables& tables) { return library::parameters_of(module, optimizer, tables); },
            [this](grad::Buckets& buckets) { return make_update(buckets); }),
        attendance_(options.uneven_inputs && member.size() > 1 && !plan_.strategy.asynchronous
                        ? std::make_unique<library::Attendance>(member)
                        : nullptr),
        shards_(make_shards()),
        arrivals_(replica_.buckets, replica_.tables) {
    library::require_same(
        gather_text(member_.all(), library::describe(replica_.buckets, replica_.tables), "what is trained"));
    replica_.announce(
        {.gradient = [this](grad::ParamId id) { return is_announced(id); },
         .rows = [this](std::size_t table) { return is_announced(table); },
         .around = [this](const std::function<void()>& announce) { tell_failure_of(announce); }});
    if (!shards_) replica_.updater.keep_applied();
    if (options.resume.empty()) {
      broadcast_rest(session);
      replica_.exchange->start(0, false);
    } else {
      go_on_from(options.resume, session);
    }
    if (!shards_) replica_.buckets.drop_gradients();
  }

  void step() {
    require_usable("step()");
    if (finished_) throw ConfigError("step() was called after finish()");
    if (attendance_ && count_present(library::Attendance::Doing::step).saving > 0) {
      throw ConfigError("other processes save where this one makes a step");
    }
    if (shards_) shards_->require_all();
    end_step();
    ++steps_;
  }

  ShardRun shards() const {
    if (!shards_) throw ConfigError("shards() was called where DistributedOptions::shards is 0");
    return shards_->run();
  }

  void begin_shard() {
    require_usable("shards()");
    if (finished_) throw ConfigError("a loop over shards() begins after finish()");
    shards_->begin(steps_made_);
    begin_step();
  }

  void end_shard() {
    if (!shards_->at_last()) gather_gradients();
    shards_->end();
  }

  void finish() {
    require_usable("finish()");
    if (in_step_) throw ConfigError("finish() was called between a backward pass and its step()");
    if (std::exchange(finished_, true)) return;
    if (attendance_) go_on_with_the_others();
    replica_.exchange->finish(exchange::Afterwards::nothing);
    if (server_) server_->wait();
  }

  void save(const std::string& folder) {
    require_usable("save()");
    if (attendance_ && !finished_) require_all_save();
    library::save(trained(), {.folder = folder, .steps = steps_, .in_step = in_step_, .finished = finished_});
  }

  template <typename Work>
  void tell_failure_of(const Work& work) {
    try {
      member_.tell_failure_of([&] { with_reasons_of_servers(work); });
    } catch (...) {
      failed_ = true;
      throw;
    }
  }
  // The same where only the loss of a process is one.
  template <typename Work>
  void tell_loss_in(const Work& work) {
    try {
      member_.tell_failure_of([&] { with_reasons_of_servers(work); });
    } catch (const PeerError&) {
      failed_ = true;
      throw;
    }
  }
  bool failed() const { return failed_; }
  std::int64_t steps() const { return steps_; }
  std::uint64_t bytes_sent() const { return replica_.exchange->bytes_sent(); }
  void hold(int by) { held_ += by; }

 private:
  // A server that ends looks lost to its workers. What ended it says more, where it is known; else the
  // process that it lives in is named: no other has its rank.
  template <typename Work>
  void with_reasons_of_servers(const Work& work) {
    try {
      work();
    } catch (const PeerLost& e) {
      const int server = to_int(e.fault.peer) - member_.size();
      if (server < 0) throw;
      if (server_ && server == member_.rank()) server_->wait();
      throw PeerLost({e.fault.rank, Rank{server}, e.fault.operation + " with its server", e.fault.waited});
    }
  }

  // This process's, if it has one.
  std::unique_ptr<ps::ServerThread> make_server() {
    if (member_.rank() >= plan_.servers) return nullptr;
    return std::make_unique<ps::ServerThread>([this, seat = Rank{member_.size() + member_.rank()}] {
      const auto transport = world_->take_seat(seat);
      std::optional<net::Survivors> reordered;
      ps::serve(seen_by_servers(*transport, reordered), plan_.tuning.servers);
    });
  }

  // The ranks as servers count them, on either end.
  net::Transport& seen_by_servers(net::Transport& all, std::optional<net::Survivors>& reordered) const {
    if (plan_.seen_by_servers.empty()) return all;
    return reordered.emplace(all, plan_.seen_by_servers);
  }

  void require_usable(const char* call) const {
    if (failed_) throw RunError(fmt::format("{} was called after this training had failed", call));
  }

  // Every process has one, or all throw; and all have the same.
  library::Plan agreed_plan(const DistributedOptions& options) {
    std::optional<library::Plan> plan;
    library::require_same(library::all_or_none(member_.all(), "what is trained", [&] {
      plan.emplace(library::plan_of(options, member_, module_, optimizer_));
      return library::describe(*plan, options, optimizer_);
    }));
    return with_hook(std::move(*plan), options.hook);
  }

  // Buckets become their means by the hook.
  library::Plan with_hook(library::Plan plan, const std::shared_ptr<Hook>& hook) {
    if (hook) {
      plan.tuning.average = [this, hook](collectives::Collectives& all, std::size_t bucket,
                                         collectives::Buffer buffer, std::string_view label) {
        average_by(*hook, all, bucket, buffer, label);
      };
    }
    return plan;
  }

  void average_by(Hook& hook, collectives::Collectives& all, std::size_t bucket,
                  const collectives::Buffer& buffer, std::string_view label) {
    if (!for_hook_) for_hook_.emplace(all, "hook");
    const torch::NoGradGuard no_grad;
    const auto count = static_cast<std::int64_t>(buffer.count);
    hook.average(*for_hook_, static_cast<int>(bucket), torch::from_blob(buffer.data, {count}));
    // Every worker has looked at what it brought; what a hook has made of it nobody has seen.
    if (!optim::all_finite({static_cast<const float*>(buffer.data), buffer.count}, optim::kNotFinite) &&
        !replica_.updater.finite().skips()) {
      throw NonFinite(all.rank(), steps_ + 1,
                      fmt::format("the hook has made a NaN or an infinite number, in {}", label));
    }
  }

  void end_step() {
    begin_step();
    gather_gradients();
    replica_.exchange->finish_step();
    if (replica_.exchange->rows() != nullptr) replica_.exchange->rows()->fetch_all();
    if (shards_) {
      shards_->finish_step();
    } else {
      replica_.buckets.drop_gradients();
    }
    in_step_ = false;
    ++steps_made_;
  }

  // What backward has not brought counts as it is.
  void gather_gradients() {
    replica_.buckets.gather_stray_gradients([this](grad::ParamId id) { return arrivals_.has(id); });
    arrivals_.clear();
  }

  std::unique_ptr<library::ShardWork> make_shards() {
    if (!plan_.has_shards()) return nullptr;
    // How a product is cut for several threads decides in which order it is added up, and processes share
    // cores.
    torch::set_num_threads(1);
    return std::make_unique<library::ShardWork>(replica_, module_, all_, plan_.seed);
  }

  // Brings nothing to the steps of those that still have samples, and takes part in them.
  void go_on_with_the_others() {
    replica_.buckets.zero_gradients();
    const auto own_rates = library::learning_rates(optimizer_);
    while (true) {
      const auto present = count_present(library::Attendance::Doing::nothing);
      if (present.saving > 0) continue;  // they are told that it cannot be
      if (present.processes == 0) break;
      // Their schedulers go on; this process's does not.
      library::set_learning_rates(optimizer_, present.rates);
      end_step();
    }
    library::set_learning_rates(optimizer_, own_rates);
  }

  library::Attendance::Present count_present(library::Attendance::Doing mine) {
    auto present = attendance_->count(mine, library::learning_rates(optimizer_));
    if (present.processes > 0)
      replica_.updater.scale_means(static_cast<double>(member_.size()) / present.processes);
    return present;
  }

  // Whoever has run out of samples makes steps with the others and saves nothing.
  void require_all_save() {
    const int saving =
        attendance_->count(library::Attendance::Doing::save, library::learning_rates(optimizer_)).saving;
    if (saving == member_.size()) return;
    throw ConfigError(
        fmt::format("save() was called by {} of {} processes; the others make a step or have finished",
                    saving, member_.size()));
  }

  std::unique_ptr<exchange::Update> make_update(grad::Buckets& buckets) {
    if (plan_.optimizer.settings) return exchange::flat_update(buckets, *plan_.optimizer.settings);
    return exchange::torch_update(optimizer_);
  }

  // A step begins with its first gradient: from then on its learning rate is what it is.
  void begin_step() {
    if (std::exchange(in_step_, true)) return;
    const auto& flat = plan_.optimizer.settings;
    replica_.updater.begin_step(steps_made_ + 1, flat ? library::learning_rate(optimizer_, *flat) : 0);
  }

  // Whether the exchange hears of a gradient that is final: of a parameter in a bucket, or of a table.
  template <typename Id>
  bool is_announced(Id id) {
    if (finished_) return false;
    arrivals_.require_first(id, shards_ ? "shard; take another one after" : "step; call step() after");
    if (held_ > 0) return false;
    if (shards_) shards_->require_open(arrivals_.name_of(id));
    begin_step();
    arrivals_.add(id);
    return !shards_ || shards_->at_last();
  }

  // What is not exchanged, because no gradient changes it or nobody applies one: buffers, and parameters that
  // are frozen or not the optimizer's.
  void broadcast_rest(Session& session) {
    for (auto& item : module_.named_buffers()) {
      if (item.value().defined()) session.broadcast(item.value());
    }
    for (auto& [name, parameter] : untrained_) session.broadcast(parameter);
  }

  library::Trained trained() { return {member_, plan_, module_, untrained_, optimizer_, replica_}; }

  // Rank 0 first: the others begin with its buffers, and then take back what was their own.
  void go_on_from(const std::string& folder, Session& session) {
    const auto resumed = library::restore_first(trained(), folder);
    broadcast_rest(session);
    library::restore_others(trained(), resumed);
    replica_.exchange->start(resumed.model_steps, true);
    steps_ = resumed.own_steps;
    steps_made_ = plan_.strategy.asynchronous ? resumed.own_steps : resumed.model_steps;
  }

  library::Member& member_;
  torch::optim::Optimizer& optimizer_;
  torch::nn::Module& module_;
  state::NamedTensors untrained_;
  library::Plan plan_;
  const std::unique_ptr<library::World> world_;
  const std::unique_ptr<ps::ServerThread> server_;  // outlives the transport: it ends when all have left
  const std::unique_ptr<net::Transport> everyone_;
  std::optional<net::Survivors> reordered_;  // of everyone
  net::Group workers_;
  const std::unique_ptr<net::Transport> neighbours_;
  collectives::NativeEngine all_;
  observe::Trace trace_;
  std::optional<library::CollectiveWorkers> for_hook_;  // the communication thread's
  exchange::Replica replica_;
  const std::unique_ptr<library::Attendance> attendance_;  // where inputs are uneven
  const std::unique_ptr<library::ShardWork> shards_;       // where a step is computed by shards
  library::Arrivals arrivals_;                             // of this step, or of this shard
  std::int64_t steps_ = 0;                                 // that this process brought gradients to
  std::int64_t steps_made_ = 0;                            // of all
  int held_ = 0;                                           // NoSyncs that live
  bool in_step_ = false;
  bool finished_ = false;
  bool failed_ = false;
};

Distributed::Distributed(Session& session, torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                         const DistributedOptions& options)
    : impl_(session.member_->tell_failure_of(
          [&] { return std::make_unique<Impl>(session, *session.member_, module, optimizer, options); })) {}

// After a failure the others do not come to finish.
Distributed::~Distributed() {
  if (std::uncaught_exceptions() > 0 || impl_->failed()) return;
  try {
    finish();
  } catch (const std::exception&) {
    // The launcher has been told; there is nobody to throw it to.
  }
}

void Distributed::step() {
  impl_->tell_failure_of([&] { impl_->step(); });
}

// All throw where there is no checkpoint, and may go on without it, unless a process is lost.
void Distributed::save(const std::string& folder) {
  impl_->tell_loss_in([&] { impl_->save(folder); });
}

Shards Distributed::shards() {
  const ShardRun run = impl_->shards();
  return {*this, run.first, run.count()};
}

NoSync Distributed::no_sync() {
  return NoSync(*this);
}

void Distributed::finish() {
  impl_->tell_failure_of([&] { impl_->finish(); });
}

std::int64_t Distributed::steps() const {
  return impl_->steps();
}

std::uint64_t Distributed::bytes_sent() const {
  return impl_->bytes_sent();
}

Shards::Iterator Shards::begin() const {
  training_->impl_->tell_failure_of([&] { training_->impl_->begin_shard(); });
  return {*training_, first_, first_ + count_};
}

Shards::Iterator::Iterator(Distributed& training, int first, int end)
    : training_(&training), shard_(first), end_(end) {}

Shards::Iterator& Shards::Iterator::operator++() {
  auto& impl = *training_->impl_;
  impl.tell_failure_of([&] {
    impl.end_shard();
    if (++shard_ != end_) impl.begin_shard();
  });
  return *this;
}

NoSync::NoSync(Distributed& training) : training_(training) {
  training_.impl_->hold(1);
}

NoSync::~NoSync() {
  training_.impl_->hold(-1);
}

}  // namespace tutti
