#include "collectives/native.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <system_error>

#include "base/error.h"
#include "collectives/executor.h"
#include "collectives/hierarchical.h"

namespace tutti::collectives {
namespace {

constexpr std::size_t kAlignment = 4096;

// About what a rank sends at a time.
constexpr std::size_t kMessage = 256 << 10;

// All ranks, those of a host side by side.
std::vector<Rank> in_order_of(const std::vector<int>& hosts) {
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < hosts.size(); ++r) ranks.push_back(Rank{static_cast<int>(r)});
  std::ranges::stable_sort(ranks, {}, [&](Rank r) { return hosts[static_cast<std::size_t>(to_int(r))]; });
  return ranks;
}

}  // namespace

NativeEngine::NativeEngine(net::Transport& transport, std::optional<Algorithm> algorithm, const Hosts& hosts)
    : transport_(transport), algorithm_(algorithm) {
  const std::set<int> different(hosts.by_rank.begin(), hosts.by_rank.end());
  if (different.size() > 1 && different.size() < hosts.by_rank.size()) {
    TUTTI_CHECK(hosts.by_rank.size() == static_cast<std::size_t>(world()), "hosts of {} ranks, not {}",
                hosts.by_rank.size(), world());
    hosts_ = static_cast<int>(different.size());
    hierarchy_ = std::make_unique<Hierarchy>(transport, hosts);
    auto order = in_order_of(hosts.by_rank);
    if (!std::ranges::is_sorted(order)) by_host_.emplace(transport, std::move(order));
  }
  token_ = allocate(sizeof(std::int32_t));
  if (transport.peer_memory() != nullptr) copies_ = allocate(2 * kOneShotBytes);
}

NativeEngine::~NativeEngine() = default;

NativeEngine* NativeEngine::inside() const {
  return hierarchy_ ? hierarchy_->inside() : nullptr;
}

Collectives* NativeEngine::neighbours() {
  return inside();
}

std::span<std::byte> NativeEngine::allocate(std::size_t bytes) {
  if (inside() != nullptr) return inside()->allocate(bytes);
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  net::PeerMemory* shared = transport_.peer_memory();
  if (shared == nullptr) {
    std::size_t size = rounded + kAlignment;
    auto& own = owned_.emplace_back(std::calloc(size, 1), &std::free);
    if (!own) throw std::bad_alloc();
    void* block = own.get();
    return {static_cast<std::byte*>(std::align(kAlignment, rounded, block, size)), bytes};
  }
  const auto arena = shared->arena(rank());
  if (rounded > arena.size() - arena_used_) {
    throw RunError(fmt::format("rank {}: {} bytes of shared memory are in use, {} more do not fit in {}",
                               to_int(transport_.in_job(rank())), arena_used_, bytes, arena.size()));
  }
  // A fresh arena is zero, and so is what was taken back.
  const auto block = arena.subspan(arena_used_, bytes);
  arena_used_ += rounded;
  return block;
}

Collectives::Mark NativeEngine::mark() const {
  return inside() != nullptr ? inside()->mark() : Mark{arena_used_, owned_.size()};
}

void NativeEngine::release(const Mark& mark) {
  if (inside() != nullptr) return inside()->release(mark);
  while (owned_.size() > mark.own) owned_.pop_back();
  if (arena_used_ <= mark.shared) return;
  // Whole pages; what was never touched is not touched now.
  const auto back = transport_.peer_memory()->arena(rank()).subspan(mark.shared, arena_used_ - mark.shared);
  if (::madvise(back.data(), back.size(), MADV_REMOVE) != 0)
    throw RunError(fmt::format("rank {}: shared memory cannot be given back: {}",
                               to_int(transport_.in_job(rank())), std::generic_category().message(errno)));
  arena_used_ = mark.shared;
}

void NativeEngine::all_reduce(Buffer buffer, ReduceOp op, std::string_view label) {
  run(Operation::all_reduce, buffer, op, Rank{0}, label);
}

void NativeEngine::reduce_scatter(Buffer buffer, ReduceOp op, std::string_view label) {
  run(Operation::reduce_scatter, buffer, op, Rank{0}, label);
}

void NativeEngine::all_gather(Buffer buffer, std::string_view label) {
  run(Operation::all_gather, buffer, ReduceOp::sum, Rank{0}, label);
}

void NativeEngine::broadcast(Buffer buffer, Rank root, std::string_view label) {
  run(Operation::broadcast, buffer, ReduceOp::sum, root, label);
}

void NativeEngine::reduce(Buffer buffer, ReduceOp op, Rank root, std::string_view label) {
  run(Operation::reduce, buffer, op, root, label);
}

void NativeEngine::barrier(std::string_view label) {
  run(Operation::barrier, {token_.data(), 1, DType::i32}, ReduceOp::max, Rank{0}, label);
}

Method NativeEngine::method(Operation operation, std::uint64_t bytes) const {
  const Path path = transport_.peer_memory() != nullptr ? Path::in_place : Path::network;
  auto [algorithm, reason] = choose({operation, ReduceOp::average, bytes, world(), path, hosts_}, algorithm_);
  return {std::string(name_of(algorithm)), std::move(reason)};
}

// What average_shards() uses: its calls are sums, where those of method() are averages.
Method NativeEngine::method_of_shards(Operation operation, std::uint64_t bytes) const {
  const Path path = transport_.peer_memory() != nullptr ? Path::in_place : Path::network;
  auto [algorithm, reason] = choose({operation, ReduceOp::sum, bytes, world(), path, hosts_}, algorithm_);
  if (info_of(algorithm).runs == AlgorithmInfo::Runs::across_hosts) {
    reason = fmt::format(
        "{} ranks on {} hosts: by messages, which keep the order of the shards, and between hosts only what "
        "a "
        "host has added up",
        world(), hosts_);
  }
  return {std::string(name_of(algorithm)), std::move(reason)};
}

Algorithm NativeEngine::algorithm_for(const Call& call) {
  const auto key = std::tuple(call.operation, call.op, call.bytes, call.path, call.hosts);
  const auto found = chosen_.find(key);
  if (found != chosen_.end()) return found->second.algorithm;
  return chosen_.emplace(key, choose(call, algorithm_)).first->second.algorithm;
}

Path NativeEngine::path_of(const Buffer& buffer) const {
  net::PeerMemory* shared = transport_.peer_memory();
  if (shared == nullptr) return Path::network;
  const auto arena = shared->arena(rank());
  const auto* p = static_cast<const std::byte*>(buffer.data);
  const bool inside = p >= arena.data() && p < arena.data() + arena.size();
  return inside ? Path::in_place : Path::shared_memory;
}

const NativeEngine::Plan& NativeEngine::plan(Operation operation, Algorithm algorithm, const Buffer& buffer,
                                             Rank place, Rank root) {
  const auto key = std::tuple(operation, algorithm, buffer.count, buffer.type, root);
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  Plan plan;
  plan.schedule = make_schedule(operation, algorithm, place, world(), buffer.count, root);
  plan.sent_elements = elements_sent(plan.schedule);
  return plans_.emplace(key, std::move(plan)).first->second;
}

// A large buffer goes in blocks: what one round has brought is still in the cache, and in the sockets'
// buffers, when the next takes it up. Not where a rank's part is a part of the whole buffer.
void NativeEngine::run_in_blocks(Operation operation, Algorithm algorithm, Buffer buffer, ReduceOp op,
                                 Rank root, const net::Activity& doing) {
  const bool whole = operation == Operation::reduce_scatter || operation == Operation::all_gather;
  // Only where no rank's number means anything to the result.
  net::Transport& ranks = by_host_ && operation == Operation::all_reduce ? *by_host_ : transport_;
  const std::size_t size = size_of(buffer.type);
  const std::size_t most = kMessage * static_cast<std::size_t>(world()) / size;
  const std::size_t blocks = whole ? 1 : std::max<std::size_t>(1, (buffer.count + most - 1) / most);
  for (std::size_t i = 0; i < blocks; ++i) {
    const Chunk part = equal_chunk(buffer.count, static_cast<int>(blocks), static_cast<int>(i));
    const Buffer block{static_cast<std::byte*>(buffer.data) + part.first * size, part.count, buffer.type};
    const Plan& plan = this->plan(operation, algorithm, block, ranks.rank(), root);
    bytes_sent_ += plan.sent_elements * size;
    run_by_messages(ranks, {plan.schedule, block, op, doing}, scratch_);
  }
}

std::size_t NativeEngine::place_of(const void* in_arena) const {
  return static_cast<std::size_t>(static_cast<const std::byte*>(in_arena) -
                                  transport_.peer_memory()->arena(rank()).data());
}

void NativeEngine::run_in_arena(Operation operation, Algorithm algorithm, Buffer buffer, ReduceOp op,
                                Rank root, const net::Activity& doing) {
  const Plan& plan = this->plan(operation, algorithm, buffer, rank(), root);
  bytes_sent_ += plan.sent_elements * size_of(buffer.type);
  const WorkInPlace work{{plan.schedule, buffer, op, doing},
                         *transport_.peer_memory(),
                         rank(),
                         world(),
                         ++works_,
                         make_announcement(operation, algorithm, buffer, op, root, place_of(buffer.data)),
                         place_of(copies_.data())};
  clock_ = info_of(algorithm).in_place(work, clock_);
}

void NativeEngine::run(Operation operation, Buffer buffer, ReduceOp op, Rank root, std::string_view label) {
  TUTTI_CHECK(to_int(root) >= 0 && to_int(root) < world(), "root {}", to_int(root));
  TUTTI_CHECK(buffer.device == Device{}, "this engine moves memory of the host alone");
  if (world() == 1) return;
  const net::Activity doing{name_of(operation), label};
  const Path path = path_of(buffer);
  const Algorithm algorithm = algorithm_for({operation, op, buffer.bytes(), world(), path, hosts_});
  if (info_of(algorithm).runs == AlgorithmInfo::Runs::across_hosts) {
    return hierarchy_->all_reduce(buffer, op, label);
  }
  if (path == Path::in_place) {
    run_in_arena(operation, algorithm, buffer, op, root, doing);
  } else {
    run_in_blocks(operation, algorithm, buffer, op, root, doing);
  }
  const bool divided = path == Path::in_place && info_of(algorithm).in_place != run_in_place;
  if (op == ReduceOp::average && !divided) finish_average(operation, buffer, root);
}

// Across hosts always by messages: the shards of a host may be no neighbours in their tree, so that it has
// several sums, where its shared memory keeps one.
void NativeEngine::average_shards(Operation operation, const ShardSums& sums, Rank root,
                                  std::string_view label) {
  const Buffer& result = sums.places[0];
  const net::Activity doing{name_of(operation), label};
  const bool in_arena = std::ranges::all_of(sums.places, [&](const Buffer& b) { return owns(b); });
  Path path = path_of(result);
  if (path == Path::in_place && !in_arena) path = Path::shared_memory;
  if (world() > 1) {
    const Algorithm algorithm =
        algorithm_for({operation, ReduceOp::sum, result.bytes(), world(), path, hosts_});
    // Rounds in place would read a peer's sum where it has become another node meanwhile; by messages they
    // carry what they say.
    if (path == Path::in_place && info_of(algorithm).in_place != run_in_place) {
      add_in_arena(sums, algorithm, doing);
    } else {
      add_by_messages(operation, sums, algorithm, root, doing);
    }
  }
  if (operation != Operation::reduce || rank() == root) {
    divide(result.type, result.data, result.count, sums.tree.shards());
  }
}

void NativeEngine::add_in_arena(const ShardSums& sums, Algorithm algorithm, const net::Activity& doing) {
  const Buffer& result = sums.places[0];
  const Schedule none;
  const WorkInPlace work{{none, result, ReduceOp::sum, doing},
                         *transport_.peer_memory(),
                         rank(),
                         world(),
                         ++works_,
                         make_announcement(Operation::all_reduce, algorithm, result, ReduceOp::sum, Rank{0},
                                           place_of(result.data)),
                         0};
  std::vector<std::size_t> places;
  for (const Buffer& place : sums.places) places.push_back(place_of(place.data));
  bytes_sent_ +=
      2 * result.bytes() * static_cast<std::size_t>(world() - 1) / static_cast<std::size_t>(world());
  clock_ = add_in_place_in_order(work, sums.tree, places, clock_);
}

void NativeEngine::add_by_messages(Operation operation, const ShardSums& sums, Algorithm algorithm, Rank root,
                                   const net::Activity& doing) {
  const Buffer& result = sums.places[0];
  const std::size_t size = size_of(result.type);
  const std::size_t most = kMessage * static_cast<std::size_t>(world()) / size;
  for (std::size_t first = 0; first < result.count; first += most) {
    const Chunk part{first, std::min(most, result.count - first)};
    const auto key = std::tuple(operation, algorithm, part.count, root, sums.tree.shards());
    auto found = ordered_.find(key);
    if (found == ordered_.end()) {
      const bool across_hosts = info_of(algorithm).runs == AlgorithmInfo::Runs::across_hosts;
      auto schedule =
          across_hosts
              ? put_in_order(hierarchy_->schedules(part.count), rank(), part.count, sums.tree)
              : make_ordered_schedule(operation, algorithm, rank(), world(), part.count, sums.tree, root);
      found = ordered_.emplace(key, std::move(schedule)).first;
    }
    const OrderedSchedule& schedule = found->second;
    std::vector<Buffer> places;
    for (const Buffer& place : sums.places)
      places.push_back({bytes_of(place, part).data(), part.count, result.type});
    const auto needed = static_cast<std::size_t>(schedule.places);
    const std::size_t more = needed - std::min(needed, places.size());
    if (scratch_.size() < more * part.count * size) scratch_.resize(more * part.count * size);
    for (std::size_t i = 0; i < more; ++i) {
      places.push_back({scratch_.data() + i * part.count * size, part.count, result.type});
    }
    bytes_sent_ += elements_sent(schedule) * size;
    run_in_order(transport_, schedule, places, doing);
  }
}

void NativeEngine::cancel() {
  transport_.cancel();
  if (hierarchy_) hierarchy_->cancel();
}

std::uint64_t NativeEngine::bytes_sent() const {
  return bytes_sent_ + (hierarchy_ ? hierarchy_->bytes_sent() : 0);
}

void NativeEngine::finish_average(Operation operation, const Buffer& buffer, Rank root) const {
  Chunk part{0, buffer.count};
  if (operation == Operation::reduce_scatter) part = equal_chunk(buffer.count, world(), to_int(rank()));
  if (operation == Operation::reduce && rank() != root) return;
  auto* first = static_cast<std::byte*>(buffer.data) + part.first * size_of(buffer.type);
  divide(buffer.type, first, part.count, world());
}

}  // namespace tutti::collectives
