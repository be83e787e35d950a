#include "ps/held_pieces.h"

#include <thread>
#include <tuple>

#include "optim/step.h"

namespace tutti::ps {

HeldPieces::HeldPieces(ServerContext& context, const Layout& layout) : context_(context) {
  const ServerOptions& options = context.options;
  const auto& all = layout.pieces;
  const auto workers = static_cast<std::size_t>(options.workers);
  pieces_.resize(all.size());
  for (std::uint32_t id = 0; id < all.size(); ++id) {
    const Piece& p = all[id];
    if (p.server != context.self) continue;
    auto held = std::make_unique<Held>();
    held->id = id;
    held->count = p.count;
    std::tie(held->gate, held->values) = place_gate(context.room, p.memory_at, p.count);
    if (options.role == Role::update) {
      held->state.assign(static_cast<std::size_t>(optim::state_slots(options.optimizer)),
                         std::vector<float>(p.count));
    }
    held->inbox.assign(workers, context.payloads.room_for_arriving(p.count));
    held->gradients.resize(workers);
    held->earlier.resize(workers);
    held->lr.resize(workers);
    held->replies.resize(workers);
    held->ledger.emplace(options.policy);
    context.report.parameter_bytes += p.count * sizeof(float);
    pieces_[id] = std::move(held);
  }
}

HeldPieces::Held& HeldPieces::find(Rank from, const Header& header) {
  if (header.piece >= pieces_.size() || !pieces_[header.piece]) {
    throw ProtocolError(fmt::format("worker {} asked server {} for piece {}, which it does not hold",
                                    to_int(from), context_.self, header.piece));
  }
  return *pieces_[header.piece];
}

void HeldPieces::on_push(Rank from, const Header& header) {
  Held& held = find(from, header);
  const auto w = static_cast<std::size_t>(to_int(from));
  // All of it first: the ledger hears of no push whose worker dies in the middle of it.
  const auto gradient = receive_gradient(from, header, held);
  if (header.has_more()) return keep_earlier(from, held, gradient);
  Decision decision = held.ledger->on_push(push_of(from, header));
  const bool keep = decision.gradient == Decision::Gradient::keep;
  if (keep) {
    held.gradients[w] = gradient;
    // What has arrived stays where it is, and its memory changes hands; in place both are empty.
    if (!gradient.empty()) held.inbox[w].swap(arriving_);
  }
  leave_out_void(held, decision);
  // A repetition says nothing new, and must not change how the push that it repeats is answered.
  if (!decision.repeated) held.replies[w] = Reply{header.slot};
  if (keep) held.lr[w] = context_.rate_of(header, decision);
  context_.count(decision);
  follow(held, decision);
}

// What has arrived takes its memory along.
void HeldPieces::keep_earlier(Rank from, Held& held, std::span<const float> sum) {
  auto& earlier = held.earlier[static_cast<std::size_t>(to_int(from))];
  if (sum.empty() || earlier.size() >= context_.earlier_sums_of(from)) {
    throw ProtocolError(fmt::format("worker {}: one more sum of shards for piece {}, which has {}",
                                    to_int(from), held.id, earlier.size()));
  }
  const bool travelled = sum.data() == arriving_.data();
  earlier.push_back({travelled ? std::exchange(arriving_, {}) : std::vector<float>(), sum});
}

// Nothing of a void push. What travels arrives in memory of its own: the worker's inbox may hold a gradient
// that waits for those of others, and this push may turn out to be a repetition of that one.
std::span<const float> HeldPieces::receive_gradient(Rank from, const Header& header, const Held& held) {
  if (header.is_void()) {
    if (header.bytes != 0 || context_.options.role == Role::mean) {
      throw ProtocolError(fmt::format("worker {}: a push of nothing with {} bytes, or where means are made",
                                      to_int(from), header.bytes));
    }
    return {};
  }
  return context_.payloads.receive(from, header, held.count, arriving_, {"receiving a gradient"});
}

// Versions are made without the gradients of void pushes, whatever lets them be made.
void HeldPieces::leave_out_void(const Held& held, Decision& decision) {
  std::erase_if(decision.update_from,
                [&](int other) { return held.gradients[static_cast<std::size_t>(other)].empty(); });
}

void HeldPieces::follow(Held& held, const Decision& decision) {
  if (!decision.update_from.empty()) update(held, decision.update_from);
  // Each server begins with another worker: together they keep all workers' links busy.
  for (std::size_t i = 0; i < decision.answers.size(); ++i) {
    const Answer& a =
        decision.answers[(i + static_cast<std::size_t>(context_.self)) % decision.answers.size()];
    context_.report.max_lead = std::max(context_.report.max_lead, a.lead);
    reply(held, a.worker, held.replies[static_cast<std::size_t>(a.worker)]);
  }
}

void HeldPieces::update(Held& held, const std::vector<int>& from) {
  const ServerOptions& options = context_.options;
  std::optional<WriteLock> lock;
  if (!stable()) {
    lock.emplace(*held.gate, context_.transport.rank(), context_.transport.board(),
                 Deadline::in(options.timeout));
  } else {
    // No gate: every worker has pushed again, so it has its answer, and nobody reads. But it may have it
    // before the outbox's thread, which sent it from these very values, has returned from sending.
    while (held.unsent.load() > 0) {
      context_.outbox.check();
      std::this_thread::yield();
    }
  }
  // The rate of one stands for all: workers of a version are at the same step.
  const double lr = held.lr[static_cast<std::size_t>(from[0])];
  scratch_.resize(held.count);
  const std::span<const float> mean =
      mean_of(held, from, options.role == Role::mean ? held.values : scratch_);
  for (auto& earlier : held.earlier) earlier.clear();
  if (options.role == Role::mean) {
    if (mean.data() != held.values.data()) std::ranges::copy(mean, held.values.begin());
    return;
  }
  const std::vector<std::span<float>> state(held.state.begin(), held.state.end());
  optim::step(options.optimizer, lr, held.ledger->version(), held.values, mean, state);
}

// Of these workers' gradients, in the given room or where the only one lies.
std::span<const float> HeldPieces::mean_of(Held& held, const std::vector<int>& from,
                                           std::span<float> room) const {
  const ServerOptions& options = context_.options;
  std::vector<std::span<const float>> gradients;
  if (options.shards == 0) {
    for (const int w : from) gradients.push_back(held.gradients[static_cast<std::size_t>(w)]);
    if (gradients.size() == 1) return gradients[0];
    optim::average(room, gradients);
    return room;
  }
  if (from.size() != static_cast<std::size_t>(options.workers)) {
    throw ProtocolError(fmt::format("{} of {} workers bring sums of shards", from.size(), options.workers));
  }
  const ShardTree tree(options.shards);
  std::vector<ShardTree::Held> nodes;
  for (const int w : from) {
    const auto worker = static_cast<std::size_t>(w);
    const auto held_there = tree.held_of(tree.run_of(w, options.workers));
    if (held.earlier[worker].size() + 1 != held_there.size()) {
      throw ProtocolError(fmt::format("worker {}: {} sums of shards for piece {}, not {}", w,
                                      held.earlier[worker].size() + 1, held.id, held_there.size()));
    }
    for (std::size_t i = 0; i < held_there.size(); ++i) {
      nodes.push_back({held_there[i].node, static_cast<int>(gradients.size())});
      gradients.push_back(i < held.earlier[worker].size() ? held.earlier[worker][i].numbers
                                                          : held.gradients[worker]);
    }
  }
  optim::average_shards(room, tree, std::move(nodes), gradients);
  return room;
}

// Whether a version is never made while somebody may still be reading the one before.
bool HeldPieces::stable() const {
  return context_.options.policy.consistency == Consistency::sync && context_.options.policy.backup == 0;
}

void HeldPieces::on_pull(Rank from, const Header& header) {
  reply(find(from, header), to_int(from), Reply::parameters);
}

// What the next forward pass needs first was in the last bucket: the highest piece is the most urgent.
void HeldPieces::reply(Held& held, int worker, Reply kind) {
  const Header header{.verb = Verb::piece,
                      .piece = held.id,
                      .slot = static_cast<std::uint32_t>(kind),
                      .version = held.ledger->version()};
  held.unsent.fetch_add(1);
  context_.answer(held.id, [this, &held, worker, header] {
    context_.deliver(Rank{worker}, [&] { send_piece(held, worker, header); });
    held.unsent.fetch_sub(1);
  });
}

void HeldPieces::send_piece(const Held& held, int worker, Header header) {
  std::span<const float> payload;
  if (Reply{header.slot} == Reply::parameters) {
    context_.bytes_sent += held.count * sizeof(float);
    payload = payload_of(held);
  }
  header.bytes = payload.size_bytes();
  send(context_.transport, Rank{worker}, header, std::as_bytes(payload), {"sending parameters"});
}

// In place none: the worker reads the values behind their gate.
std::span<const float> HeldPieces::payload_of(const Held& held) {
  if (context_.payloads.in_place()) return {};
  if (stable()) return held.values;
  // A copy, so that a slow reader does not hold up the next update.
  const Rank self = context_.transport.rank();
  const ReadLock lock(*held.gate, self, self, Deadline::in(context_.options.timeout));
  copy_.assign(held.values.begin(), held.values.end());
  return copy_;
}

void HeldPieces::on_start(Rank from, const Header& header) {
  Held& held = find(from, header);
  const std::size_t slots = held.state.size();
  if (header.slot > slots)
    throw ProtocolError(fmt::format("worker {} starts slot {} of {}", to_int(from), header.slot, slots));
  const std::span<float> into = header.slot == 0 ? held.values : std::span(held.state[header.slot - 1]);
  receive_payload(context_.transport, from, header, std::as_writable_bytes(into),
                  {"receiving initial weights"});
  // With every slot anew: they come from one worker, before anybody pushes.
  held.ledger.emplace(context_.options.policy, header.version);
}

void HeldPieces::on_state(Rank from, const Header& header) {
  const Held& held = find(from, header);
  answer_state(context_, from, header, held.state);
}

void HeldPieces::on_leave(int worker) {
  for (const auto& held : pieces_) {
    if (held) follow(*held, held->ledger->on_leave(worker));
  }
}

void HeldPieces::on_drop(int worker) {
  for (const auto& held : pieces_) {
    if (!held) continue;
    Decision decision = held->ledger->on_drop(worker);
    leave_out_void(*held, decision);
    follow(*held, decision);
  }
}

void HeldPieces::blame_awaited(std::chrono::milliseconds standing) const {
  for (const auto& held : pieces_) {
    if (held) ps::blame_awaited(context_, *held->ledger, fmt::format("piece {}", held->id), standing);
  }
}

}  // namespace tutti::ps
