#include "train/run_context.h"

#include <ATen/Parallel.h>

#include "train/open_data.h"

namespace tutti::train {

std::unique_ptr<OperatorProgress> watch_operators(const config::TrainConfig& config,
                                                  const net::Transport& everyone) {
  if (config.heartbeat_timeout_s <= 0) return nullptr;
  return std::make_unique<OperatorProgress>(everyone.board(), everyone.rank(), timeout_of(config));
}

namespace {

// Shared memory then takes the place of the network.
bool all_are_neighbours(const collectives::Hosts& hosts, const config::TrainConfig& config) {
  return hosts.neighbours != nullptr && hosts.neighbours->world() == config.workers;
}

collectives::Hosts hosts_of_workers(collectives::Hosts hosts, const config::TrainConfig& config) {
  if (all_are_neighbours(hosts, config)) return {};
  if (!hosts.by_rank.empty()) hosts.by_rank.resize(static_cast<std::size_t>(config.workers));
  return hosts;
}

}  // namespace

RunContext::RunContext(const Setup& its_setup, net::Transport& all_ranks, observe::EventSink& its_sink,
                       const collectives::Hosts& its_hosts, const std::string& address)
    : setup(its_setup),
      config(its_setup.config),
      sink(its_sink),
      operators(watch_operators(config, all_ranks)),
      info(models::find_model(config.model, config.loss)),
      strategy(exchange::find_strategy(config.strategy)),
      asynchronous(strategy.asynchronous || config.backup_workers > 0),
      together(!asynchronous && !strategy.replicas_differ),
      training(open_samples(setup, Part::training)),
      test(open_samples(setup, Part::test)),
      plan(make_plan(config, training->size())),
      everyone(all_ranks),
      hosts(its_hosts.by_rank),
      group_(all_ranks, config.workers),
      engine_(engines::find_engine(config.engine)
                  .make(all_are_neighbours(its_hosts, config) ? *its_hosts.neighbours : group_,
                        {.algorithm = exchange::algorithm_of(strategy, config.algorithm),
                         .timeout = timeout_of(config),
                         .address = address,
                         .hosts = hosts_of_workers(its_hosts, config)})),
      workers(*engine_),
      trace(config.trace, all_ranks.rank()) {
  // On this thread, whoever calls: how a sum is cut for several threads decides its bits.
  at::set_num_threads(config.threads);
  if (auto order = seen_by_servers(config, hosts); !order.empty()) {
    reordered_.emplace(everyone, std::move(order));
  }
}

data::LoaderPlan RunContext::loading() const {
  const std::int64_t first = setup.first_step;
  // Where workers do not keep step, a fast one makes steps that a slow one does not.
  const std::int64_t ahead = strategy.asynchronous ? (plan.total_steps - first) * workers.world() : 0;
  const ShardRun mine = parts_of(config, to_int(rank()));
  return {.seed = config.seed,
          .batch = static_cast<std::size_t>(plan.part),
          .parts = static_cast<std::size_t>(plan.parts),
          .first_part = static_cast<std::size_t>(mine.first),
          .last_part = static_cast<std::size_t>(mine.last),
          .first_step = static_cast<std::uint64_t>(first),
          .end_step = static_cast<std::uint64_t>(plan.total_steps + ahead),
          .augment = augment_of(config)};
}

std::vector<EpochSums> RunContext::samples_before() const {
  if (rank() != Rank{0}) return {};
  return counted_before(setup.ledger, setup.first_step, plan.steps_per_epoch);
}

RunRequests RunContext::make_requests() const {
  const auto in_step = strategy.replicas_differ ? StepMode::in_periods : StepMode::together;
  return {board(),
          rank(),
          workers.world(),
          asynchronous ? StepMode::asynchronous : in_step,
          strategy.replicas_differ ? config.sync_every : 1,
          &workers};
}

void RunContext::gather_survivors() {
  if (!survives_workers(config)) return;
  constexpr std::uint32_t kAfterTheExchange = 3;  // it meets up to twice to finish
  auto left =
      board().barrier_of_survivors(rank(), workers.world(), kAfterTheExchange, timeout_of(config), "the end");
  if (static_cast<int>(left.size()) == workers.world()) return;
  survivors_.emplace(everyone, std::move(left));
  rest_.emplace(*survivors_);
}

}  // namespace tutti::train
