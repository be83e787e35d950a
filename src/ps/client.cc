#include "ps/client.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/nontemporal.h"
#include "base/process.h"
#include "net/stall.h"
#include "ps/gate.h"

namespace tutti::ps {
namespace {

using net::Activity;

// How often a wait for a server is looked at.
constexpr auto kGlance = std::chrono::milliseconds(200);

// A server that is held up by another worker says so first, and names it.
constexpr auto kCourtesy = std::chrono::seconds(2);

// Pieces without an answer that a worker may have under way to each server. More would only take the place of
// a slower worker's on the server's link, and nothing is answered before that one's have come.
constexpr std::size_t kUnderWay = 4;

// What is larger leaves a cache before it is used again.
constexpr std::size_t kStaysCached = 8 << 20;

bool outgrows_cache(const std::vector<ClientBucket>& buckets) {
  std::size_t bytes = 0;
  for (const ClientBucket& b : buckets) bytes += b.parameters.size_bytes();
  return bytes > kStaysCached;
}

std::vector<Rank> servers_of(const ServerOptions& options) {
  std::vector<Rank> ranks;
  for (int s = 0; s < options.servers; ++s) ranks.push_back(Rank{options.first_server + s});
  return ranks;
}

std::span<float> part(std::span<float> bucket, const Piece& piece) {
  return bucket.subspan(piece.first, piece.count);
}

}  // namespace

Client::Client(net::Transport& transport, const ServerOptions& options, const Contents& contents,
               std::vector<ClientBucket> buckets, std::vector<ClientTable> tables)
    : transport_(transport),
      options_(options),
      servers_(servers_of(options)),
      buckets_(std::move(buckets)),
      tables_(std::move(tables)),
      shapes_(contents.tables),
      nontemporal_(outgrows_cache(buckets_)),
      most_under_way_(transport.peer_memory() != nullptr
                          ? std::numeric_limits<std::size_t>::max()
                          : kUnderWay * static_cast<std::size_t>(options.servers)),
      lacking_(buckets_.size()) {
  TUTTI_CHECK(buckets_.size() == contents.buckets.size() && tables_.size() == shapes_.size());
  const Layout layout = lay_out(contents, options.servers);
  for (const Piece& p : layout.pieces) pieces_.push_back({p});
  for (const TablePart& p : layout.parts) parts_.push_back({.where = p});
  const int worker = to_int(transport.rank());
  order_ = sending_order(layout.pieces, buckets_.size(), options.servers, worker);
  part_order_ = sending_order(layout.parts, tables_.size(), options.servers, worker);
  const Activity doing{"joining the servers"};
  const std::string text = describe(options, contents).dump();
  for (const Rank s : servers_) {
    send(transport_, s, {.verb = Verb::hello, .bytes = text.size()}, std::as_bytes(std::span(text)), doing);
  }
  for (const Rank s : servers_) {
    if (receive_header(transport_, s, doing).verb != Verb::welcome) {
      throw ProtocolError(
          fmt::format("rank {} did not welcome rank {}", to_int(s), to_int(transport.rank())));
    }
  }
  sender_ = std::thread([this] { send_gradients(); });
  receiver_ = std::thread([this] { receive_pieces(); });
}

Client::~Client() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    // In the middle of a step nobody waits for the result any more, and a server may never answer.
    if (away_ + rows_away_ > 0) transport_.cancel();
  }
  changed_.notify_all();
  sender_.join();
  receiver_.join();
}

void Client::start(std::int64_t version, const std::vector<StateSlot>& state) {
  TUTTI_CHECK(options_.role == Role::update, "servers that only average hold no parameters");
  start_pieces(version, state);
  start_tables(version, state);
}

void Client::start_pieces(std::int64_t version, const std::vector<StateSlot>& state) {
  const Activity doing{"sending initial weights"};
  for (std::uint32_t id = 0; id < pieces_.size(); ++id) {
    const Piece& p = pieces_[id].where;
    Header header{.verb = Verb::start, .piece = id, .version = version, .bytes = p.count * sizeof(float)};
    const auto send_slot = [&](std::span<float> bucket) {
      send(transport_, server_rank(p.server), header, std::as_bytes(part(bucket, p)), doing);
      ++header.slot;
    };
    send_slot(buckets_[p.bucket].parameters);
    for (const StateSlot& slot : state) send_slot(slot.buckets[p.bucket]);
  }
  pull();  // answered when all of it has arrived
}

// Some at a time: requests must fit between us and a server.
void Client::pull() {
  constexpr std::size_t kAtATime = 256;
  const Activity doing{"pulling parameters"};
  for (std::size_t first = 0; first < pieces_.size(); first += kAtATime) {
    const std::size_t last = std::min(first + kAtATime, pieces_.size());
    std::vector<Rank> awaited;  // a server for each answer
    for (std::size_t id = first; id < last; ++id) {
      awaited.push_back(server_rank(pieces_[id].where.server));
      send(transport_, awaited.back(), {.verb = Verb::pull, .piece = static_cast<std::uint32_t>(id)}, {},
           doing);
    }
    while (!awaited.empty()) {
      const Rank from = next_to_answer([&] { return awaited.front(); }, doing);
      const auto answer = std::ranges::find(awaited, from);
      if (answer == awaited.end()) {
        throw ProtocolError(fmt::format("rank {}: rank {} sent a piece that nobody asked for",
                                        to_int(transport_.rank()), to_int(from)));
      }
      awaited.erase(answer);
      receive_one(from, doing);
    }
  }
}

void Client::fetch_state(const std::vector<StateSlot>& state) {
  for (std::uint32_t slot = 0; slot < state.size(); ++slot) {
    for (std::uint32_t id = 0; id < pieces_.size(); ++id) {
      const Piece& p = pieces_[id].where;
      fetch_slot(Verb::state, id, p.server, slot + 1, part(state[slot].buckets[p.bucket], p));
    }
    for (std::uint32_t id = 0; id < parts_.size(); ++id) {
      const TablePart& p = parts_[id].where;
      std::vector<float> rows(p.rows * p.width);
      fetch_slot(Verb::state_rows, id, p.server, slot + 1, rows);
      scatter(rows, p, state[slot].tables[p.table]);
    }
  }
}

void Client::fetch_slot(Verb verb, std::uint32_t id, int server, std::uint32_t slot, std::span<float> into) {
  const Activity doing{"fetching optimizer state"};
  send(transport_, server_rank(server), {.verb = verb, .piece = id, .slot = slot}, {}, doing);
  const Header header = receive_header(transport_, server_rank(server), doing);
  receive_payload(transport_, server_rank(server), header, std::as_writable_bytes(into), doing);
}

void Client::leave() {
  for (const Rank s : servers_) send(transport_, s, {.verb = Verb::leave}, {}, {"leaving the servers"});
}

std::vector<ServerReport> Client::say_goodbye(bool another_follows) {
  const Activity doing{"saying goodbye to the servers"};
  std::vector<ServerReport> reports;
  for (const Rank s : servers_) {
    send(transport_, s, {.verb = Verb::bye, .slot = another_follows ? 1U : 0U}, {}, doing);
    const Header header = receive_header(transport_, s, doing);
    reports.push_back(nlohmann::json::parse(receive_text(transport_, s, header, doing)).get<ServerReport>());
  }
  return reports;
}

void Client::push(std::size_t bucket, double lr, Answering answering, Bringing bringing) {
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) return;  // wait() will say it
    for (const std::size_t id : order_[bucket]) {
      TUTTI_CHECK(!pieces_[id].away, "bucket {} is pushed twice", bucket);
      if (away_++ + rows_away_ == 0) busy_since_ = Clock::now();
      pieces_[id].away = true;
      pieces_[id].sent = false;
      ++lacking_[bucket];
      queue_.emplace_back([this, id, lr, answering, bringing] { send_piece(id, lr, answering, bringing); });
    }
  }
  changed_.notify_all();
}

void Client::wait(std::size_t bucket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || lacking_[bucket] == 0; });
  rethrow();
}

std::int64_t Client::version() const {
  const std::scoped_lock lock(mutex_);
  auto lowest = std::numeric_limits<std::int64_t>::max();
  for (const Track& p : pieces_) lowest = std::min(lowest, p.version);
  for (const PartTrack& p : parts_) lowest = std::min(lowest, p.version);
  return lowest;
}

std::uint64_t Client::bytes_sent() const {
  const std::scoped_lock lock(mutex_);
  return bytes_sent_;
}

Clock::duration Client::take_busy_time() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(busy_, {});
}

void Client::send_gradients() {
  name_thread("push");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || (!queue_.empty() && under_way_ < most_under_way_); });
    if (stop_) return;
    const auto send_next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    try {
      send_next();
    } catch (...) {
      return fail(std::current_exception());
    }
    lock.lock();
  }
}

void Client::send_piece(std::size_t id, double lr, Answering answering, Bringing bringing) {
  const bool is_void = bringing == Bringing::nothing;
  Header header{.verb = Verb::push,
                .piece = static_cast<std::uint32_t>(id),
                .slot = static_cast<std::uint32_t>(answering),
                .incarnation = options_.incarnation,
                .flags = is_void ? Header::kVoid : 0,
                .lr = lr};
  Piece p;
  {
    const std::scoped_lock lock(mutex_);
    Track& track = pieces_[id];
    p = track.where;
    header.version = track.version;
    header.sequence = ++sequence_;
    ++under_way_;
    if (!is_void) bytes_sent_ += p.count * sizeof(float);
  }
  const auto gradients = part(buckets_[p.bucket].gradients, p);
  const Activity doing{"pushing gradients"};
  if (is_void) {
    send(transport_, server_rank(p.server), header, {}, doing);
  } else if (transport_.peer_memory() != nullptr) {
    header.memory_at = place_in_arena(gradients.data());
    send(transport_, server_rank(p.server), header, {}, doing);
  } else {
    header.bytes = gradients.size_bytes();
    send(transport_, server_rank(p.server), header, std::as_bytes(gradients), doing);
  }
  {
    const std::scoped_lock lock(mutex_);
    pieces_[id].sent = true;
  }
  changed_.notify_all();
}

std::uint64_t Client::place_in_arena(const float* gradients) const {
  const auto arena = transport_.peer_memory()->arena(transport_.rank());
  return static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(gradients) - arena.data());
}

void Client::enqueue(std::function<void()> send) {
  {
    const std::scoped_lock lock(mutex_);
    if (failure_) return;
    if (away_ + rows_away_++ == 0) busy_since_ = Clock::now();
    queue_.push_back(std::move(send));
  }
  changed_.notify_all();
}

void Client::receive_pieces() {
  name_thread("pull");
  const Activity doing{"waiting for updated parameters"};
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || away_ + rows_away_ > 0; });
    if (stop_) return;
    lock.unlock();
    try {
      receive_one(next_to_answer([this] { return awaited_server(); }, doing), doing);
    } catch (...) {
      return fail(std::current_exception());
    }
    lock.lock();
  }
}

// Whichever begins first. A server answers one worker at a time: to wait for a certain one, while the answer
// of another fills our connection, would stop that one for everybody.
Rank Client::next_to_answer(const std::function<Rank()>& awaited, const Activity& doing) {
  net::Stall stall(transport_.board(), options_.timeout + kCourtesy);
  while (true) {
    if (const auto from = transport_.wait_for_any(servers_, kGlance, doing)) return *from;
    if (stall.over()) throw Timeout({transport_.rank(), awaited(), doing.text(), stall.standing_ms()});
  }
}

// One that has not answered.
Rank Client::awaited_server() const {
  const std::scoped_lock lock(mutex_);
  const auto piece = std::ranges::find(pieces_, true, &Track::away);
  if (piece != pieces_.end()) return server_rank(piece->where.server);
  const auto part = std::ranges::find_if(parts_, [](const PartTrack& p) { return !p.wanted.empty(); });
  return server_rank(part != parts_.end() ? part->where.server : 0);
}

void Client::receive_one(Rank from, const Activity& doing) {
  const Header header = receive_header(transport_, from, doing);
  if ((header.verb == Verb::counted || header.verb == Verb::rows) && header.piece < parts_.size()) {
    header.verb == Verb::rows ? rows_came(header, from, doing) : rows_counted(header);
    changed_.notify_all();
    return;
  }
  if (header.verb != Verb::piece || header.piece >= pieces_.size()) {
    throw ProtocolError(fmt::format("rank {}: server {} answered verb {}, piece {}",
                                    to_int(transport_.rank()), to_int(from),
                                    static_cast<std::uint32_t>(header.verb), header.piece));
  }
  Track& track = pieces_[header.piece];
  bool was_pushed = false;
  {
    // A server answers a push when it has all of it, so the sender is about to return. Where the answer lands
    // on the gradients they must have been let go.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !track.away || track.sent || stop_; });
    was_pushed = track.away;
  }
  land(header, from, doing);
  if (was_pushed) clear_gradients(track.where);
  {
    const std::scoped_lock lock(mutex_);
    track.version = header.version;
    if (!was_pushed) return;
    track.away = false;
    --under_way_;
    --lacking_[track.where.bucket];
    if (--away_ + rows_away_ == 0) busy_ += Clock::now() - busy_since_;
  }
  changed_.notify_all();
}

void Client::land(const Header& header, Rank from, const Activity& doing) {
  const Piece piece = pieces_[header.piece].where;  // never changes
  const ClientBucket& bucket = buckets_[piece.bucket];
  if (Answering{header.slot} == Answering::bare) return;
  const auto into = part(bucket.landing, piece);
  if (net::PeerMemory* memory = transport_.peer_memory()) {
    const auto held = memory->arena(from);
    const ReadLock lock(gate_at(held, piece.memory_at), transport_.rank(), from,
                        Deadline::in(options_.timeout));
    const std::span<const float> values = values_behind(held, piece.memory_at, into.size());
    nontemporal_ ? copy_nontemporal(into, values) : (void)std::ranges::copy(values, into.begin());
  } else {
    receive_payload(transport_, from, header, std::as_writable_bytes(into), doing);
  }
}

// The gradients that were pushed have been used.
void Client::clear_gradients(const Piece& piece) const {
  const ClientBucket& bucket = buckets_[piece.bucket];
  if (bucket.landing.data() == bucket.gradients.data()) return;
  const auto gradients = part(bucket.gradients, piece);
  nontemporal_ ? clear_nontemporal(gradients) : (void)std::ranges::fill(gradients, 0.0F);
}

void Client::fail(std::exception_ptr failure) {
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    stop_ = true;
  }
  changed_.notify_all();
}

void Client::rethrow() const {
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace tutti::ps
