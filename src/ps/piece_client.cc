#include "ps/piece_client.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/nontemporal.h"

namespace tutti::ps {
namespace {

using net::Activity;

// Pieces without an answer that a worker may have under way to each server. More would only take the place of
// a slower worker's on the server's link, and nothing is answered before that one's have come.
constexpr std::size_t kUnderWay = 4;

// What is larger has left the processor's caches by the time it is used again.
constexpr std::size_t kStaysCached = 8 << 20;

// Pieces that are pulled at a time: as many requests, of a header each, must fit into the connection to a
// server that is busy with its answers and does not read.
constexpr std::size_t kAtATime = 256;

bool outgrows_cache(const std::vector<ClientBucket>& buckets) {
  std::size_t bytes = 0;
  for (const ClientBucket& b : buckets) bytes += b.parameters.size_bytes();
  return bytes > kStaysCached;
}

// In place a push is a header: it takes nothing from anybody.
std::size_t most_under_way(const Payloads& payloads, int servers) {
  return payloads.in_place() ? std::numeric_limits<std::size_t>::max()
                             : kUnderWay * static_cast<std::size_t>(servers);
}

std::span<float> numbers_of(std::span<float> bucket, const Piece& piece) {
  return bucket.subspan(piece.first, piece.count);
}

}  // namespace

PieceClient::PieceClient(Connection& connection, std::vector<ClientBucket> buckets)
    : connection_(connection),
      requests_(connection.requests()),
      transport_(connection.transport()),
      payloads_(transport_),
      buckets_(std::move(buckets)),
      nontemporal_(outgrows_cache(buckets_)),
      most_under_way_(most_under_way(payloads_, connection.options().servers)),
      order_(sending_order(connection.layout().pieces, buckets_.size(), connection.options().servers,
                           to_int(transport_.rank()))),
      lacking_(buckets_.size()) {
  TUTTI_CHECK(buckets_.size() == connection.contents().buckets.size());
  for (const Piece& p : connection.layout().pieces) pieces_.push_back({p});
  requests_.attach(*this);
}

PieceClient::~PieceClient() {
  requests_.stop();
}

void PieceClient::start(std::int64_t version, const std::vector<StateSlot>& state) {
  TUTTI_CHECK(connection_.options().role == Role::update, "servers that only average hold no parameters");
  const Activity doing{"sending initial weights"};
  for (std::uint32_t id = 0; id < pieces_.size(); ++id) {
    const Piece& p = pieces_[id].where;
    Header header{.verb = Verb::start, .piece = id, .version = version, .bytes = p.count * sizeof(float)};
    const auto send_slot = [&](std::span<float> bucket) {
      send(transport_, server_of(p), header, std::as_bytes(numbers_of(bucket, p)), doing);
      ++header.slot;
    };
    send_slot(buckets_[p.bucket].parameters);
    for (const StateSlot& slot : state) send_slot(slot.buckets[p.bucket]);
  }
  pull();  // a server takes messages in order: its answers say that it has taken all of these
}

void PieceClient::pull() {
  const Activity doing{"pulling parameters"};
  for (std::size_t first = 0; first < pieces_.size(); first += kAtATime) {
    const std::size_t last = std::min(first + kAtATime, pieces_.size());
    std::vector<Rank> awaited;  // a server for each answer
    for (std::size_t id = first; id < last; ++id) {
      awaited.push_back(server_of(pieces_[id].where));
      send(transport_, awaited.back(), {.verb = Verb::pull, .piece = static_cast<std::uint32_t>(id)}, {},
           doing);
    }
    while (!awaited.empty()) {
      const Rank from = requests_.take_answer([&] { return awaited.front(); }, doing);
      const auto answer = std::ranges::find(awaited, from);
      if (answer == awaited.end()) {
        throw ProtocolError(fmt::format("rank {}: rank {} sent a piece that nobody asked for",
                                        to_int(transport_.in_job(transport_.rank())),
                                        to_int(transport_.in_job(from))));
      }
      awaited.erase(answer);
    }
  }
}

void PieceClient::fetch_state(const std::vector<StateSlot>& state) {
  for (std::uint32_t slot = 0; slot < state.size(); ++slot) {
    for (std::uint32_t id = 0; id < pieces_.size(); ++id) {
      const Piece& p = pieces_[id].where;
      connection_.fetch_state(Verb::state, id, p.server, slot + 1,
                              numbers_of(state[slot].buckets[p.bucket], p));
    }
  }
}

void PieceClient::push(std::size_t bucket, double lr, Reply reply, PushKind kind) {
  {
    const auto lock = requests_.lock();
    if (requests_.failed(lock)) return;  // wait() will say it
    for (const std::size_t id : order_[bucket]) {
      TUTTI_CHECK(!pieces_[id].away, "bucket {} is pushed twice", bucket);
      pieces_[id].away = true;
      pieces_[id].sent = false;
      ++lacking_[bucket];
      requests_.post(lock, [this, id, lr, reply, kind] { send_piece(id, lr, reply, kind); });
    }
  }
  requests_.notify();
}

void PieceClient::wait(std::size_t bucket) {
  auto lock = requests_.lock();
  requests_.wait(lock, [&] { return lacking_[bucket] == 0; });
}

std::int64_t PieceClient::version() const {
  const auto lock = requests_.lock();
  auto lowest = std::numeric_limits<std::int64_t>::max();
  for (const Track& p : pieces_) lowest = std::min(lowest, p.version);
  return lowest;
}

void PieceClient::send_piece(std::size_t id, double lr, Reply reply, PushKind kind) {
  const Piece& p = pieces_[id].where;
  const ClientBucket& bucket = buckets_[p.bucket];
  Header header{.verb = Verb::push,
                .piece = static_cast<std::uint32_t>(id),
                .slot = static_cast<std::uint32_t>(reply),
                .incarnation = connection_.options().incarnation,
                .flags = kind == PushKind::nothing ? Header::kVoid : 0,
                .lr = lr};
  {
    const auto lock = requests_.lock();
    // The version and the number are taken when the push leaves, not when it is posted: the ledger takes each
    // worker's pushes by rising numbers (ps/ledger.h), and they leave in the order of this thread.
    header.version = pieces_[id].version;
    header.sequence = requests_.next_sequence(lock);
    ++under_way_;
  }
  if (kind == PushKind::gradient) {
    Header one_of_several = header;
    one_of_several.flags |= Header::kMore;
    for (const auto& sums : bucket.earlier) send_push(p, one_of_several, numbers_of(sums, p), kind);
  }
  send_push(p, header, numbers_of(bucket.gradients, p), kind);
  const auto lock = requests_.lock();
  pieces_[id].sent = true;
}

void PieceClient::send_push(const Piece& piece, Header header, std::span<const float> numbers,
                            PushKind kind) {
  std::span<const std::byte> payload;
  if (kind == PushKind::gradient) {
    payload = payloads_.announce(header, numbers);
    requests_.count_bytes(requests_.lock(), numbers.size_bytes());
  }
  send(transport_, server_of(piece), header, payload, {"pushing gradients"});
}

bool PieceClient::handles(const Header& answer) const {
  return answer.verb == Verb::piece && answer.piece < pieces_.size();
}

// One that has not answered a push.
std::optional<Rank> PieceClient::awaited() const {
  const auto piece = std::ranges::find(pieces_, true, &Track::away);
  if (piece == pieces_.end()) return std::nullopt;
  return server_of(piece->where);
}

// To a push, or to a pull.
bool PieceClient::on_answer(const Header& answer, Rank from, const Activity& doing) {
  Track& track = pieces_[answer.piece];
  bool was_pushed = false;
  {
    // A server answers a push when it has all of it, so the sender is about to return. Where the answer lands
    // on the gradients they must have been let go.
    auto lock = requests_.lock();
    requests_.wait(lock, [&] { return !track.away || track.sent; });
    was_pushed = track.away;
  }
  land(answer, from, doing);
  if (was_pushed) clear_gradients(track.where);
  const auto lock = requests_.lock();
  track.version = answer.version;
  // Nobody waits for the answer to a pull but its caller, who is here: no thread is woken for it.
  if (!was_pushed) return false;
  track.away = false;
  --under_way_;
  --lacking_[track.where.bucket];
  requests_.answered(lock);
  return true;
}

void PieceClient::land(const Header& answer, Rank from, const Activity& doing) {
  if (Reply{answer.slot} == Reply::acknowledgement) return;
  const Piece& piece = pieces_[answer.piece].where;
  const auto into = numbers_of(buckets_[piece.bucket].landing, piece);
  if (const auto held = payloads_.held_by(from, piece.memory_at, piece.count)) {
    const ReadLock lock(held->gate, transport_.rank(), from, Deadline::in(connection_.options().timeout));
    nontemporal_ ? copy_nontemporal(into, held->values) : (void)std::ranges::copy(held->values, into.begin());
  } else {
    receive_payload(transport_, from, answer, std::as_writable_bytes(into), doing);
  }
}

// The gradients that were pushed have been used. Where the answer has taken their place there is nothing to
// clear.
void PieceClient::clear_gradients(const Piece& piece) const {
  const ClientBucket& bucket = buckets_[piece.bucket];
  if (bucket.landing.data() == bucket.gradients.data()) return;
  const auto gradients = numbers_of(bucket.gradients, piece);
  nontemporal_ ? clear_nontemporal(gradients) : (void)std::ranges::fill(gradients, 0.0F);
}

}  // namespace tutti::ps
