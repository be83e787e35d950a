// Hierarchical: shared memory inside a host, the network only between hosts.
//
// With 2 ranks on each of 2 hosts, the buffer is cut into as many stripes as a host has ranks:
//
//                 inside: reduce-scatter       between: all-reduce        inside: all-gather
//     host 0
//       rank 0    stripe 0 of both ────┐       stripe 0 ◄────────┐        stripe 0 to rank 2
//       rank 2    stripe 1 of both ──┐ │       stripe 1 ◄──────┐ │        stripe 1 to rank 0
//     host 1                         │ │                       │ │
//       rank 1    stripe 0 of both   │ └─────► stripe 0 ◄──────┼─┘        stripe 0 to rank 3
//       rank 3    stripe 1 of both   └───────► stripe 1 ◄──────┘          stripe 1 to rank 1
//
// Ranks with the same place on their hosts form a *column*. All columns together put 2 (H - 1) / H of the
// buffer on each host's link, as if every host were one rank; a flat ring puts up to 2 (N - 1) / N of it
// there for each rank of the host. Where hosts have different numbers of ranks there are as many stripes as
// the smallest has, and ranks beyond them only take part inside.
//
// A large buffer goes in blocks. While one is between the hosts, another thread gathers the one before it
// and reduces the one after it, so that links never wait for memory:
//
//     this thread             between 0     between 1         between 2         between 3
//     the other      R0  R1           └► G0  R2         └► G1  R3         └► G2             └► G3
//
// R: reduce-scatter inside, G: all-gather inside. The order of R and G is the same on every rank.
#include "collectives/hierarchical.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"

namespace tutti::collectives {
namespace {

// Bytes. Large enough that the end of one and the beginning of the next, when columns wait for each other,
// are a small part of its time on a link of 1 to 10 Gbit/s; small enough that the first reduction and the
// last gathering, beside which no link works, are a small part of a model's.
constexpr std::size_t kBlock = std::size_t{4} << 20;

// Blocks that have been reduced inside and not gathered.
constexpr std::size_t kInFlight = 2;

// How far each of two threads has come, and the first failure of either.
class Stages {
 public:
  void finish_reduction() { count(reduced_); }
  void finish_exchange() { count(exchanged_); }

  // Wait until so many blocks have passed the stage; false if the other thread has failed.
  bool await_reductions(std::size_t blocks) { return await(reduced_, blocks); }
  bool await_exchanges(std::size_t blocks) { return await(exchanged_, blocks); }

  // What was thrown after the first is only its consequence.
  void fail(std::exception_ptr failure) {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    changed_.notify_all();
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void count(std::size_t& stage) {
    const std::scoped_lock lock(mutex_);
    ++stage;
    changed_.notify_all();
  }
  bool await(const std::size_t& stage, std::size_t blocks) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stage >= blocks || failure_; });
    return !failure_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t reduced_ = 0;
  std::size_t exchanged_ = 0;
  std::exception_ptr failure_;
};

void copy(const Buffer& into, const Buffer& from) {
  if (from.count > 0) std::memcpy(into.data, from.data, from.bytes());
}

Buffer part_of(const Buffer& buffer, const Chunk& part) {
  return {static_cast<std::byte*>(buffer.data) + part.first * size_of(buffer.type), part.count, buffer.type};
}

}  // namespace

Hierarchy::Hierarchy(net::Transport& all, const Hosts& hosts)
    : all_(all), neighbours_(hosts.neighbours), ranks_(net::ranks_by_host(hosts.by_rank)) {
  stripes_ = all.world();
  for (const auto& [host, here] : ranks_) stripes_ = std::min(stripes_, static_cast<int>(here.size()));
  const auto& here = ranks_.at(hosts.by_rank.at(static_cast<std::size_t>(to_int(all.rank()))));
  place_ = static_cast<int>(std::ranges::find(here, all.rank()) - here.begin());
  TUTTI_CHECK(here.size() == (neighbours_ == nullptr ? 1 : static_cast<std::size_t>(neighbours_->world())),
              "{} ranks on the host of rank {}", here.size(), to_int(all.rank()));
  if (neighbours_ != nullptr) {
    inside_ = std::make_unique<NativeEngine>(*neighbours_);
    TUTTI_CHECK(to_int(inside_->rank()) == place_, "neighbours are ranked in the order of their ranks");
    staging_ = inside_->allocate(kInFlight * kBlock);
  }
  if (place_ >= stripes_) return;
  std::vector<Rank> column;
  for (const auto& [host, there] : ranks_) column.push_back(there[static_cast<std::size_t>(place_)]);
  column_.emplace(all, std::move(column));
  between_.emplace(*column_);
}

std::vector<Schedule> Hierarchy::schedules(std::size_t count) const {
  const int hosts = static_cast<int>(ranks_.size());
  const auto stripe = [&](std::size_t place) {
    return equal_chunk(count, stripes_, static_cast<int>(place));
  };
  std::vector<Schedule> all(static_cast<std::size_t>(all_.world()));
  const auto of = [&](Rank r) -> Schedule& { return all[static_cast<std::size_t>(to_int(r))]; };
  for (Schedule& schedule : all) schedule.rounds.resize(1);
  std::size_t rounds = 1;
  // Inside, each stripe to the rank that has its place. Between, one all-reduce a column.
  for (std::size_t place = 0; place < static_cast<std::size_t>(stripes_); ++place) {
    const Chunk part = stripe(place);
    if (part.count == 0) continue;
    std::vector<Rank> column;
    for (const auto& [host, there] : ranks_) {
      const Rank owner = there[place];
      column.push_back(owner);
      for (const Rank r : there) {
        if (r == owner) continue;
        of(r).rounds[0].sends.push_back({owner, part});
        of(owner).rounds[0].receives.push_back({r, part, true});
      }
    }
    const Call call{
        Operation::all_reduce, ReduceOp::sum, part.count * sizeof(float), hosts, Path::network, 1};
    const Algorithm algorithm = choose(call).algorithm;
    for (int h = 0; h < hosts; ++h) {
      auto between = make_schedule(Operation::all_reduce, algorithm, Rank{h}, hosts, part.count);
      Schedule& schedule = of(column[static_cast<std::size_t>(h)]);
      for (Round& round : between.rounds) {
        for (Send& s : round.sends) {
          s.peer = column[static_cast<std::size_t>(to_int(s.peer))];
          s.chunk.first += part.first;
        }
        for (Receive& r : round.receives) {
          r.peer = column[static_cast<std::size_t>(to_int(r.peer))];
          r.chunk.first += part.first;
        }
        schedule.rounds.push_back(std::move(round));
      }
      rounds = std::max(rounds, schedule.rounds.size());
    }
  }
  // Inside again, each stripe to all, when the last column is through.
  for (Schedule& schedule : all) schedule.rounds.resize(rounds + 1);
  for (const auto& [host, there] : ranks_) {
    for (std::size_t place = 0; place < static_cast<std::size_t>(stripes_); ++place) {
      const Chunk part = stripe(place);
      if (part.count == 0) continue;
      for (const Rank r : there) {
        if (r == there[place]) continue;
        of(there[place]).rounds.back().sends.push_back({r, part});
        of(r).rounds.back().receives.push_back({there[place], part, false});
      }
    }
  }
  return all;
}

Hierarchy::Task Hierarchy::cut(const Buffer& buffer, ReduceOp op, std::string_view label) const {
  const bool in_place = inside_ == nullptr || inside_->owns(buffer);
  const auto blocks = static_cast<int>(std::max<std::size_t>(1, (buffer.bytes() + kBlock - 1) / kBlock));
  // Who hears that one of its stages failed has called for an all-reduce.
  Task task{{}, op, label.empty() ? "an all-reduce" : label};
  for (int i = 0; i < blocks; ++i) {
    Block block{part_of(buffer, equal_chunk(buffer.count, blocks, i)), {}};
    block.shared = block.own;
    // It fits: kBlock is a multiple of every element, so no equal chunk is larger.
    if (!in_place) {
      block.shared.data = staging_.subspan(static_cast<std::size_t>(i) % kInFlight * kBlock).data();
    }
    task.blocks.push_back(block);
  }
  return task;
}

Buffer Hierarchy::stripe(const Block& block, int index) const {
  return part_of(block.shared, equal_chunk(block.shared.count, stripes_, index));
}

void Hierarchy::reduce_inside(const Task& task, const Block& block) {
  if (!inside_) return;
  if (block.is_staged()) copy(block.shared, block.own);
  const ReduceOp op = task.op == ReduceOp::average ? ReduceOp::sum : task.op;
  if (inside_->world() == stripes_) return inside_->reduce_scatter(block.shared, op, task.label);
  for (int s = 0; s < stripes_; ++s) inside_->reduce(stripe(block, s), op, Rank{s}, task.label);
}

// Averages are divided here, by the one rank of a host that has the sum.
void Hierarchy::reduce_between(const Task& task, const Block& block) {
  if (!between_) return;
  const Buffer own = stripe(block, place_);
  const bool average = task.op == ReduceOp::average;
  between_->all_reduce(own, average ? ReduceOp::sum : task.op, task.label);
  if (average) divide(own.type, own.data, own.count, all_.world());
}

void Hierarchy::gather_inside(const Task& task, const Block& block) {
  if (!inside_) return;
  if (inside_->world() == stripes_) {
    inside_->all_gather(block.shared, task.label);
  } else {
    for (int s = 0; s < stripes_; ++s) inside_->broadcast(stripe(block, s), Rank{s}, task.label);
  }
  if (block.is_staged()) copy(block.own, block.shared);
}

void Hierarchy::all_reduce(Buffer buffer, ReduceOp op, std::string_view label) {
  const Task task = cut(buffer, op, label);
  if (inside_ && task.blocks.size() > 1) return run_overlapped(task);
  for (const Block& block : task.blocks) {
    reduce_inside(task, block);
    reduce_between(task, block);
    gather_inside(task, block);
  }
}

// Whichever thread fails ends what the other waits for, inside or between.
void Hierarchy::run_overlapped(const Task& task) {
  const std::size_t blocks = task.blocks.size();
  Stages stages;
  const auto guarded = [&](const auto& work) {
    try {
      work();
    } catch (...) {
      stages.fail(std::current_exception());
      cancel();
    }
  };
  std::thread memory([&] {
    guarded([&] {
      for (std::size_t i = 0; i < blocks + kInFlight; ++i) {
        if (i >= kInFlight) {
          if (!stages.await_exchanges(i - kInFlight + 1)) return;
          gather_inside(task, task.blocks[i - kInFlight]);
        }
        if (i < blocks) {
          reduce_inside(task, task.blocks[i]);
          stages.finish_reduction();
        }
      }
    });
  });
  guarded([&] {
    for (std::size_t i = 0; i < blocks; ++i) {
      if (!stages.await_reductions(i + 1)) return;
      reduce_between(task, task.blocks[i]);
      stages.finish_exchange();
    }
  });
  memory.join();
  stages.rethrow();
}

void Hierarchy::cancel() {
  all_.cancel();
  if (neighbours_ != nullptr) neighbours_->cancel();
}

std::uint64_t Hierarchy::bytes_sent() const {
  return (inside_ ? inside_->bytes_sent() : 0) + (between_ ? between_->bytes_sent() : 0);
}

AlgorithmInfo hierarchical() {
  return {.name = "hierarchical",
          .summary = "shared memory inside a host, stripes of its sum between hosts",
          .runs = AlgorithmInfo::Runs::across_hosts,
          .all_reduce_only = true,
          .can_serve = [](const Call& call) {
            return call.operation == Operation::all_reduce && 1 < call.hosts && call.hosts < call.world;
          }};
}

}  // namespace tutti::collectives
