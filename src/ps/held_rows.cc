#include "ps/held_rows.h"

#include <limits>

#include "base/large_pages.h"
#include "base/simd.h"
#include "optim/step.h"

namespace tutti::ps {

HeldRows::HeldRows(ServerContext& context, const Layout& layout) : context_(context) {
  const ServerOptions& options = context.options;
  const auto& all = layout.partitions;
  const auto workers = static_cast<std::size_t>(options.workers);
  const auto slots = static_cast<std::size_t>(optim::state_slots(options.optimizer));
  partitions_.resize(all.size());
  for (std::uint32_t id = 0; id < all.size(); ++id) {
    const TablePartition& p = all[id];
    if (p.server != context.self) continue;
    const std::size_t floats = p.rows * p.width;
    const auto [gate, values] = place_gate(context.room, p.memory_at, floats);
    partitions_[id] = std::make_unique<Held>(Held{.id = id,
                                                  .partition = p,
                                                  .gate = gate,
                                                  .values = values,
                                                  .inbox = std::vector<Inbox>(workers),
                                                  .earlier = std::vector<std::vector<Inbox>>(workers),
                                                  .lr = std::vector<double>(workers),
                                                  .merger = RowMerger(p.rows, p.width),
                                                  .ledger = Ledger(options.policy)});
    for (std::size_t s = 0; s < slots; ++s) partitions_[id]->state.push_back(zeros_in_large_pages(floats));
    context.report.parameter_bytes += floats * sizeof(float);
  }
}

HeldRows::Held& HeldRows::find(Rank from, const Header& header) {
  if (header.piece >= partitions_.size() || !partitions_[header.piece]) {
    throw ProtocolError(
        fmt::format("worker {} asked server {} for partition {} of the tables, which it does not hold",
                    to_int(from), context_.self, header.piece));
  }
  return *partitions_[header.piece];
}

void HeldRows::on_push(Rank from, const Header& header) {
  Held& held = find(from, header);
  const auto w = static_cast<std::size_t>(to_int(from));
  // All of it first, as for pieces.
  receive_rows(from, header, held, arriving_);
  if (header.has_more()) {
    if (header.is_void() || held.earlier[w].size() >= context_.earlier_sums_of(from)) {
      throw ProtocolError(
          fmt::format("worker {}: one more sum of shards, after {}", w, held.earlier[w].size()));
    }
    held.earlier[w].push_back(std::exchange(arriving_, {}));
    return;
  }
  Decision decision = held.ledger.on_push(push_of(from, header));
  const bool keep = decision.gradient == Decision::Gradient::keep;
  if (keep) std::swap(held.inbox[w], arriving_);
  leave_out_void(held, decision);
  if (keep) held.lr[w] = context_.rate_of(header, decision);
  context_.count(decision);
  follow(held, decision);
}

// As many rows as the partition has, at most: nobody makes us take more memory.
void HeldRows::receive_row_numbers(Rank from, const Header& header, const Held& held,
                                   std::vector<std::uint32_t>& rows) {
  const net::Activity doing{"receiving rows"};
  const TablePartition& partition = held.partition;
  if (header.slot > partition.rows) {
    throw ProtocolError(
        fmt::format("worker {}: {} rows of a partition of {}", to_int(from), header.slot, partition.rows));
  }
  rows.resize(header.slot);
  if (!rows.empty()) net::receive(context_.transport, from, std::as_writable_bytes(std::span(rows)), doing);
  for (std::uint32_t& row : rows) {
    if (row < partition.first_place || row - partition.first_place >= partition.rows) {
      throw ProtocolError(fmt::format("worker {}: a row at place {}, which is not among the {} from {}",
                                      to_int(from), row, partition.rows, partition.first_place));
    }
    row -= static_cast<std::uint32_t>(partition.first_place);  // ours from here on
  }
}

void HeldRows::receive_rows(Rank from, const Header& header, const Held& held, Inbox& into) {
  if (header.is_void() && header.slot != 0) {
    throw ProtocolError(fmt::format("worker {}: {} rows of nothing", to_int(from), header.slot));
  }
  into.is_void = header.is_void();
  receive_row_numbers(from, header, held, into.rows);
  const std::size_t floats = into.rows.size() * held.partition.width;
  into.gradients = context_.payloads.receive(from, header, floats, into.arriving, {"receiving rows"});
}

// Versions are made without the gradients of void pushes, whatever lets them be made.
void HeldRows::leave_out_void(const Held& held, Decision& decision) {
  std::erase_if(decision.update_from,
                [&](int other) { return held.inbox[static_cast<std::size_t>(other)].is_void; });
}

void HeldRows::follow(Held& held, const Decision& decision) {
  if (!decision.update_from.empty()) update(held, decision.update_from);
  // Also where all pushes were void, and before anybody is answered: in place a worker that was counted reads
  // the rows at once, and takes their version from the gate.
  held.gate->version = held.ledger.version();
  for (const Answer& a : decision.answers) {
    context_.report.max_lead = std::max(context_.report.max_lead, a.lead);
    reply(a.worker, {.verb = Verb::counted, .piece = held.id, .version = held.ledger.version()}, {});
  }
}

void HeldRows::update(Held& held, const std::vector<int>& from) {
  const ServerOptions& options = context_.options;
  std::vector<RowGradients> gradients;
  for (const int w : from) {
    const Inbox& inbox = held.inbox[static_cast<std::size_t>(w)];
    gradients.push_back({inbox.rows, inbox.gradients});
  }
  // Readers wait for the step alone, not for the mean.
  const RowSums of_shards = options.shards > 0 ? mean_of_shards(held, from) : RowSums();
  const RowGradients mean = options.shards > 0 ? view_of(of_shards) : held.merger.mean(gradients);
  const std::vector<std::span<float>> state(held.state.begin(), held.state.end());
  // Under every rule, unlike a piece's: workers read rows without a word to us, whenever they like.
  const WriteLock lock(*held.gate, context_.transport.rank(), context_.transport.board(),
                       Deadline::in(options.timeout));
  optim::step_rows(options.optimizer, held.lr[static_cast<std::size_t>(from[0])], held.ledger.version(),
                   held.partition.width, mean.rows, held.values, mean.values, state);
}

RowSums HeldRows::mean_of_shards(Held& held, const std::vector<int>& from) const {
  const ServerOptions& options = context_.options;
  if (from.size() != static_cast<std::size_t>(options.workers)) {
    throw ProtocolError(fmt::format("{} of {} workers bring sums of shards", from.size(), options.workers));
  }
  const ShardTree tree(options.shards);
  std::vector<ShardTree::Held> nodes;
  std::vector<RowSums> sums;
  for (const int w : from) {
    auto& inboxes = held.earlier[static_cast<std::size_t>(w)];
    inboxes.push_back(held.inbox[static_cast<std::size_t>(w)]);
    const auto held_there = tree.held_of(tree.run_of(w, options.workers));
    if (inboxes.size() != held_there.size()) {
      throw ProtocolError(
          fmt::format("worker {}: {} sums of shards, not {}", w, inboxes.size(), held_there.size()));
    }
    for (std::size_t i = 0; i < inboxes.size(); ++i) {
      nodes.push_back({held_there[i].node, static_cast<int>(sums.size())});
      const auto gradients = inboxes[i].gradients;
      sums.push_back({std::move(inboxes[i].rows), {gradients.begin(), gradients.end()}});
    }
    inboxes.clear();
  }
  return average_rows(tree, std::move(nodes), std::move(sums), held.partition.width);
}

// Where rows are in place workers read them themselves, but for one of each partition after start_rows.
void HeldRows::on_pull(Rank from, const Header& header) {
  const Held& held = find(from, header);
  const Header answer{
      .verb = Verb::rows, .piece = held.id, .slot = header.slot, .version = held.ledger.version()};
  receive_row_numbers(from, header, held, wanted_);
  const std::size_t width = held.partition.width;
  std::vector<float> picked(wanted_.size() * width);
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    if (i + kRowsAhead < wanted_.size())
      prefetch_to_read(held.values.data() + wanted_[i + kRowsAhead] * width, width);
    std::copy_n(held.values.data() + wanted_[i] * width, width, picked.data() + i * width);
  }
  reply(to_int(from), answer, std::move(picked));
}

// Before all pieces: forward reads a table first, and somebody may be waiting to be counted.
void HeldRows::reply(int worker, Header header, std::vector<float> values) {
  constexpr auto kFirst = std::numeric_limits<std::uint32_t>::max();
  header.bytes = values.size() * sizeof(float);
  // Functions that can be kept can be copied, so what they hold is shared.
  const auto kept = std::make_shared<const std::vector<float>>(std::move(values));
  context_.answer(kFirst, [this, worker, header, kept] {
    context_.bytes_sent += header.bytes;
    context_.deliver(Rank{worker}, [&] {
      send(context_.transport, Rank{worker}, header, std::as_bytes(std::span(*kept)), {"sending rows"});
    });
  });
}

void HeldRows::on_start(Rank from, const Header& header) {
  Held& held = find(from, header);
  if (header.slot > held.state.size()) {
    throw ProtocolError(
        fmt::format("worker {} starts slot {} of {}", to_int(from), header.slot, held.state.size()));
  }
  const std::span<float> into = header.slot == 0 ? held.values : std::span(held.state[header.slot - 1]);
  receive_payload(context_.transport, from, header, std::as_writable_bytes(into), {"receiving initial rows"});
  held.ledger = Ledger(context_.options.policy, header.version);
  held.gate->version = header.version;
}

std::uint64_t HeldRows::bytes_read() const {
  std::uint64_t bytes = 0;
  for (const auto& held : partitions_) bytes += held ? held->gate->bytes_read.load() : 0;
  return bytes;
}

void HeldRows::on_state(Rank from, const Header& header) {
  answer_state(context_, from, header, find(from, header).state);
}

void HeldRows::on_leave(int worker) {
  for (const auto& held : partitions_) {
    if (held) follow(*held, held->ledger.on_leave(worker));
  }
}

void HeldRows::on_drop(int worker) {
  for (const auto& held : partitions_) {
    if (!held) continue;
    Decision decision = held->ledger.on_drop(worker);
    leave_out_void(*held, decision);
    follow(*held, decision);
  }
}

void HeldRows::blame_awaited(std::chrono::milliseconds standing) const {
  for (const auto& held : partitions_) {
    if (held)
      ps::blame_awaited(context_, held->ledger, fmt::format("rows of partition {}", held->id), standing);
  }
}

}  // namespace tutti::ps
