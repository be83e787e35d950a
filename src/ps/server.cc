#include "ps/server.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <queue>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "base/simd.h"
#include "optim/step.h"
#include "ps/gate.h"
#include "ps/layout.h"
#include "ps/message.h"

namespace tutti::ps {
namespace {

using net::Activity;

// How often an idle server looks whether somebody has been waited for too long.
constexpr auto kGlance = std::chrono::milliseconds(200);

// The first difference between two values, with both: "model/3/1: the server has [5], the worker [7]".
std::string difference(const nlohmann::json& ours, const nlohmann::json& theirs, const std::string& at) {
  if (ours.is_object() && theirs.is_object()) {
    for (const auto& [key, value] : ours.items()) {
      if (!theirs.contains(key) || theirs[key] != value) {
        return difference(value, theirs.value(key, nlohmann::json()),
                          at.empty() ? key : fmt::format("{}/{}", at, key));
      }
    }
  }
  if (ours.is_array() && theirs.is_array()) {
    for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
      const auto a = i < ours.size() ? ours[i] : nlohmann::json();
      const auto b = i < theirs.size() ? theirs[i] : nlohmann::json();
      if (a != b) return difference(a, b, fmt::format("{}/{}", at, i));
    }
  }
  const auto text = [](const nlohmann::json& j) { return j.is_null() ? "nothing" : j.dump(); };
  return fmt::format("{}: the server has {}, the worker {}", at, text(ours), text(theirs));
}

// What people know by name comes first.
std::string difference_of(const nlohmann::json& ours, const nlohmann::json& theirs) {
  const auto model = theirs.value("model", nlohmann::json());
  return model != ours.at("model") ? difference(ours.at("model"), model, "model")
                                   : difference(ours, theirs, "");
}

struct Reply {
  Answering answering = Answering::whole;
  std::uint32_t piece = 0;
  int worker = 0;
  std::int64_t version = 0;
  // What the next forward pass needs first was in the last bucket: highest piece first.
  bool operator<(const Reply& other) const { return piece < other.piece; }
};

class Server {
 public:
  Server(net::Transport& transport, const ServerOptions& options)
      : transport_(transport), options_(options), self_(to_int(transport.rank()) - options.first_server) {
    for (int w = 0; w < options.workers; ++w) here_.insert(w);
  }

  ~Server() {
    if (!sender_.joinable()) return;
    transport_.cancel();  // something went wrong: nobody may be listening any more
    stop_sending();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  ServerReport run() {
    greet();
    sender_ = std::thread([this] { send_replies(); });
    while (!here_.empty()) {
      const std::vector<Rank> peers = workers_here();
      const auto from = transport_.wait_for_any(peers, kGlance, {"waiting for gradients"});
      check_sender();
      from ? handle(*from) : check_patience();
    }
    stop_sending();
    check_sender();
    return report_;
  }

 private:
  struct Held {  // a piece of ours
    std::uint32_t id = 0;
    std::size_t count = 0;
    Gate* gate = nullptr;
    std::span<float> values;  // parameters, or mean gradients
    std::vector<std::vector<float>> state;
    std::vector<std::vector<float>> inbox;           // by worker: gradients that travelled
    std::vector<std::span<const float>> gradients;   // by worker: where each lies
    std::vector<Answering> answering;                // by worker
    std::vector<double> lr;                          // by worker
    std::optional<Clock::time_point> waiting_since;  // somebody waits for an answer
    std::optional<Ledger> ledger;
    std::atomic<int> unsent{0};  // replies that the sender has not finished
  };

  struct HeldRows {  // our rows of a table
    std::uint32_t id = 0;
    TablePart part;
    std::vector<float> values;
    std::vector<std::vector<float>> state;
    std::vector<RowGradients> inbox;  // by worker
    std::vector<double> lr;           // by worker
    RowMerger merger;
    std::optional<Clock::time_point> waiting_since;
    Ledger ledger;
  };

  struct RowsReply {
    Header header;
    int worker = 0;
    std::vector<float> values;
  };

  std::vector<Rank> workers_here() const {
    std::vector<Rank> peers;
    for (const int w : here_) peers.push_back(Rank{w});
    return peers;
  }

  // The first worker's description becomes ours, after our own settings have been held against it.
  void greet() {
    const Activity doing{"joining the servers"};
    for (int w = 0; w < options_.workers; ++w) {
      const Header header = receive_header(transport_, Rank{w}, doing);
      if (header.verb != Verb::hello) throw ProtocolError(fmt::format("worker {} did not say hello", w));
      const auto theirs =
          nlohmann::json::parse(receive_text(transport_, Rank{w}, header, doing), nullptr, false);
      if (!theirs.is_object()) throw ProtocolError(fmt::format("worker {} did not describe its model", w));
      if (w == 0)
        description_ = describe(options_, theirs.at("model"), theirs.at("buckets"), theirs.at("piece_bytes"));
      if (theirs != description_) {
        throw ConfigError(fmt::format("worker {} does not fit server {}: {}", w, self_,
                                      difference_of(description_, theirs)));
      }
    }
    take_pieces();
    take_rows();
    for (int w = 0; w < options_.workers; ++w) send(transport_, Rank{w}, {.verb = Verb::welcome}, {}, doing);
  }

  void take_pieces() {
    const auto buckets = description_.at("buckets").get<std::vector<std::size_t>>();
    const auto all = cut_into_pieces(buckets, options_.servers, description_.at("piece_bytes"));
    net::PeerMemory* memory = transport_.peer_memory();
    std::size_t bytes = 0;
    for (const Piece& p : all) {
      if (p.server == self_) bytes = p.memory_at + sizeof(Gate) + p.count * sizeof(float);
    }
    std::span<std::byte> room;
    if (memory != nullptr) {
      room = memory->arena(transport_.rank());
      if (bytes > room.size())
        throw RunError(fmt::format("server {}: {} bytes do not fit in {}", self_, bytes, room.size()));
    } else {
      own_ = std::make_unique<Block[]>(bytes / sizeof(Block) + 1);
      room = std::as_writable_bytes(std::span(own_.get(), bytes / sizeof(Block) + 1));
    }
    pieces_.resize(all.size());
    const auto workers = static_cast<std::size_t>(options_.workers);
    for (std::uint32_t id = 0; id < all.size(); ++id) {
      const Piece& p = all[id];
      if (p.server != self_) continue;
      auto held = std::make_unique<Held>();
      held->id = id;
      held->count = p.count;
      held->gate = reinterpret_cast<Gate*>(room.data() + p.memory_at);
      held->values = {reinterpret_cast<float*>(room.data() + p.memory_at + sizeof(Gate)), p.count};
      if (options_.role == Role::update) {
        held->state.assign(static_cast<std::size_t>(optim::state_slots(options_.optimizer.kind)),
                           std::vector<float>(p.count));
      }
      if (memory == nullptr) held->inbox.assign(workers, std::vector<float>(p.count));
      held->gradients.resize(workers);
      held->lr.resize(workers);
      held->answering.resize(workers);
      held->ledger.emplace(options_.policy);
      report_.parameter_bytes += p.count * sizeof(float);
      pieces_[id] = std::move(held);
    }
  }

  void take_rows() {
    const auto all = cut_tables(options_.tables, options_.partitions, options_.servers);
    parts_.resize(all.size());
    const auto workers = static_cast<std::size_t>(options_.workers);
    for (std::uint32_t id = 0; id < all.size(); ++id) {
      const TablePart& p = all[id];
      if (p.server != self_) continue;
      const std::size_t floats = p.rows * p.width;
      const auto slots = static_cast<std::size_t>(optim::state_slots(options_.optimizer.kind));
      parts_[id] = std::make_unique<HeldRows>(HeldRows{.id = id,
                                                       .part = p,
                                                       .values = std::vector<float>(floats),
                                                       .state = {slots, std::vector<float>(floats)},
                                                       .inbox = std::vector<RowGradients>(workers),
                                                       .lr = std::vector<double>(workers),
                                                       .merger = RowMerger(p.rows, p.width),
                                                       .waiting_since = std::nullopt,
                                                       .ledger = Ledger(options_.policy)});
      report_.parameter_bytes += floats * sizeof(float);
    }
  }

  HeldRows& part_of(const Header& header, Rank from) {
    if (header.piece >= parts_.size() || !parts_[header.piece]) {
      throw ProtocolError(
          fmt::format("worker {} asked server {} for part {} of the tables, which it does not hold",
                      to_int(from), self_, header.piece));
    }
    return *parts_[header.piece];
  }

  Held& piece_of(const Header& header, Rank from) {
    if (header.piece >= pieces_.size() || !pieces_[header.piece]) {
      throw ProtocolError(fmt::format("worker {} asked server {} for piece {}, which it does not hold",
                                      to_int(from), self_, header.piece));
    }
    return *pieces_[header.piece];
  }

  void handle(Rank from) {
    const Activity doing{"serving"};
    const Header header = receive_header(transport_, from, doing);
    switch (header.verb) {
      case Verb::push:
        return on_push(from, header);
      case Verb::pull:
        return queue_reply(
            {Answering::whole, header.piece, to_int(from), piece_of(header, from).ledger->version()});
      case Verb::start:
        return on_start(from, header);
      case Verb::state:
        return on_state(from, header);
      case Verb::push_rows:
        return on_push_rows(from, header);
      case Verb::pull_rows:
        return on_pull_rows(from, header);
      case Verb::start_rows:
        return on_start_rows(from, header);
      case Verb::leave:
        return on_leave(to_int(from));
      case Verb::bye:
        return on_bye(from);
      default:
        throw ProtocolError(
            fmt::format("worker {} sent verb {}", to_int(from), static_cast<std::uint32_t>(header.verb)));
    }
  }

  void on_push(Rank from, const Header& header) {
    Held& held = piece_of(header, from);
    const auto w = static_cast<std::size_t>(to_int(from));
    const Ruling ruling =
        held.ledger->on_push({to_int(from), header.incarnation, header.sequence, header.version});
    const bool keep = ruling.gradient == Ruling::Gradient::keep;
    take_gradient(from, header, held, keep);
    if (!ruling.repeated) held.answering[w] = Answering{header.slot};
    count(ruling);
    if (keep) held.lr[w] = rate_of(header, ruling);
    follow(held, ruling);
  }

  void count(const Ruling& ruling) {
    const auto used = static_cast<std::int64_t>(ruling.update_from.size());
    report_.applied += used;
    if (used > 0) report_.staleness[ruling.staleness] += used;
    report_.repeated += ruling.repeated ? 1 : 0;
    report_.dropped += ruling.gradient == Ruling::Gradient::drop && !ruling.repeated ? 1 : 0;
  }

  double rate_of(const Header& header, const Ruling& ruling) const {
    if (!options_.damp_stale) return header.lr;
    return header.lr / static_cast<double>(std::max<std::int64_t>(1, ruling.staleness));
  }

  void on_push_rows(Rank from, const Header& header) {
    HeldRows& held = part_of(header, from);
    const auto w = static_cast<std::size_t>(to_int(from));
    const Ruling ruling =
        held.ledger.on_push({to_int(from), header.incarnation, header.sequence, header.version});
    const bool keep = ruling.gradient == Ruling::Gradient::keep;
    receive_rows(from, header, held, keep ? held.inbox[w] : unwanted_);
    count(ruling);
    if (keep) held.lr[w] = rate_of(header, ruling);
    follow(held, ruling);
  }

  // As many rows as the part has, at most: nobody makes us take more memory.
  void receive_row_numbers(Rank from, const Header& header, const HeldRows& held,
                           std::vector<std::uint32_t>& rows) {
    const Activity doing{"receiving rows"};
    if (header.slot > held.part.rows) {
      throw ProtocolError(
          fmt::format("worker {}: {} rows of a part of {}", to_int(from), header.slot, held.part.rows));
    }
    rows.resize(header.slot);
    if (!rows.empty()) net::receive(transport_, from, std::as_writable_bytes(std::span(rows)), doing);
    for (std::uint32_t& row : rows) {
      if (row < held.part.first_row || row - held.part.first_row >= held.part.rows) {
        throw ProtocolError(fmt::format("worker {}: row {} is not among the {} from {}", to_int(from), row,
                                        held.part.rows, held.part.first_row));
      }
      row -= static_cast<std::uint32_t>(held.part.first_row);  // ours from here on
    }
  }

  void receive_rows(Rank from, const Header& header, const HeldRows& held, RowGradients& into) {
    receive_row_numbers(from, header, held, into.rows);
    into.values.resize(into.rows.size() * held.part.width);
    receive_payload(transport_, from, header, std::as_writable_bytes(std::span(into.values)),
                    {"receiving rows"});
  }

  void follow(HeldRows& held, const Ruling& ruling) {
    if (!ruling.update_from.empty()) {
      std::vector<const RowGradients*> from;
      for (const int w : ruling.update_from) from.push_back(&held.inbox[static_cast<std::size_t>(w)]);
      const RowGradients& mean = held.merger.mean(from);
      const std::vector<std::span<float>> state(held.state.begin(), held.state.end());
      optim::step_rows(options_.optimizer, held.lr[static_cast<std::size_t>(ruling.update_from[0])],
                       held.ledger.version(), held.part.width, mean.rows, held.values, mean.values, state);
    }
    for (const Answer& a : ruling.answers) {
      report_.max_lead = std::max(report_.max_lead, a.lead);
      queue_rows({{.verb = Verb::counted, .piece = held.id, .version = held.ledger.version()}, a.worker, {}});
    }
    note_waiting(held.ledger, ruling, held.waiting_since);
  }

  void on_pull_rows(Rank from, const Header& header) {
    const HeldRows& held = part_of(header, from);
    receive_row_numbers(from, header, held, wanted_);
    const std::size_t width = held.part.width;
    RowsReply reply{{.verb = Verb::rows,
                     .piece = held.id,
                     .slot = header.slot,
                     .version = held.ledger.version(),
                     .bytes = wanted_.size() * width * sizeof(float)},
                    to_int(from),
                    std::vector<float>(wanted_.size() * width)};
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (i + kRowsAhead < wanted_.size())
        prefetch_row(held.values.data() + wanted_[i + kRowsAhead] * width, width);
      std::copy_n(held.values.data() + wanted_[i] * width, width, reply.values.data() + i * width);
    }
    queue_rows(std::move(reply));
  }

  void on_start_rows(Rank from, const Header& header) {
    HeldRows& held = part_of(header, from);
    if (header.slot > held.state.size()) {
      throw ProtocolError(
          fmt::format("worker {} starts slot {} of {}", to_int(from), header.slot, held.state.size()));
    }
    auto& into = header.slot == 0 ? held.values : held.state[header.slot - 1];
    receive_payload(transport_, from, header, std::as_writable_bytes(std::span(into)),
                    {"receiving initial rows"});
    held.ledger = Ledger(options_.policy, header.version);
  }

  void queue_rows(RowsReply reply) {
    {
      const std::scoped_lock lock(mutex_);
      rows_replies_.push_back(std::move(reply));
    }
    changed_.notify_one();
  }

  void send_rows(const RowsReply& reply) {
    const auto bytes = std::as_bytes(std::span(reply.values));
    const std::scoped_lock one_sender(sending_);
    report_sent_ += bytes.size();
    send(transport_, Rank{reply.worker}, reply.header, bytes, {"sending rows"});
  }

  // A gradient that does not count is read all the same, into nowhere: the next message stands behind it.
  void take_gradient(Rank from, const Header& header, Held& held, bool keep) {
    const auto w = static_cast<std::size_t>(to_int(from));
    const std::size_t bytes = held.count * sizeof(float);
    if (net::PeerMemory* memory = transport_.peer_memory()) {
      const auto arena = memory->arena(from);
      if (header.bytes != 0 || header.memory_at % alignof(float) != 0 || header.memory_at > arena.size() ||
          arena.size() - header.memory_at < bytes) {
        throw ProtocolError(
            fmt::format("worker {}: no gradient of piece {} at {}", w, held.id, header.memory_at));
      }
      if (keep)
        held.gradients[w] = {reinterpret_cast<const float*>(arena.data() + header.memory_at), held.count};
      return;
    }
    if (!keep) scratch_.resize(held.count);
    const std::span<float> into = keep ? std::span(held.inbox[w]) : std::span(scratch_);
    receive_payload(transport_, from, header, std::as_writable_bytes(into), {"receiving a gradient"});
    if (keep) held.gradients[w] = into;
  }

  void follow(Held& held, const Ruling& ruling) {
    if (!ruling.update_from.empty()) update(held, ruling.update_from);
    for (const Answer& a : ruling.answers) {
      report_.max_lead = std::max(report_.max_lead, a.lead);
      queue_reply(
          {held.answering[static_cast<std::size_t>(a.worker)], held.id, a.worker, held.ledger->version()});
    }
    note_waiting(*held.ledger, ruling, held.waiting_since);
  }

  // Since when workers wait for another one's push.
  static void note_waiting(const Ledger& ledger, const Ruling& ruling,
                           std::optional<Clock::time_point>& since) {
    if (ledger.awaited() < 0) {
      since.reset();
    } else if (!since || !ruling.answers.empty()) {
      since = Clock::now();
    }
  }

  void update(Held& held, const std::vector<int>& from) {
    std::vector<std::span<const float>> gradients;
    for (const int w : from) gradients.push_back(held.gradients[static_cast<std::size_t>(w)]);
    std::optional<WriteLock> lock;
    if (!stable()) {
      lock.emplace(*held.gate, Deadline::in(options_.timeout));
    } else {  // every worker has pushed again, so it has its answer; the sender is about to notice
      while (held.unsent.load() > 0) {
        check_sender();
        std::this_thread::yield();
      }
    }
    if (options_.role == Role::mean) return optim::average(held.values, gradients);
    std::span<const float> mean = gradients[0];
    if (gradients.size() > 1) {
      scratch_.resize(held.count);
      optim::average(scratch_, gradients);
      mean = scratch_;
    }
    std::vector<std::span<float>> state(held.state.begin(), held.state.end());
    optim::step(options_.optimizer, held.lr[static_cast<std::size_t>(from[0])], held.ledger->version(),
                held.values, mean, state);
  }

  // Whether a version is never made while somebody may still be reading the one before.
  bool stable() const {
    return options_.policy.consistency == Consistency::sync && options_.policy.backup == 0;
  }

  void on_start(Rank from, const Header& header) {
    Held& held = piece_of(header, from);
    const std::size_t slots = held.state.size();
    if (header.slot > slots)
      throw ProtocolError(fmt::format("worker {} starts slot {} of {}", to_int(from), header.slot, slots));
    const std::span<float> into = header.slot == 0 ? held.values : std::span(held.state[header.slot - 1]);
    receive_payload(transport_, from, header, std::as_writable_bytes(into), {"receiving initial weights"});
    held.ledger.emplace(options_.policy, header.version);
  }

  void on_state(Rank from, const Header& header) {
    Held& held = piece_of(header, from);
    if (header.slot < 1 || header.slot > held.state.size()) {
      throw ProtocolError(
          fmt::format("worker {} asks for slot {} of {}", to_int(from), header.slot, held.state.size()));
    }
    const auto bytes = std::as_bytes(std::span(held.state[header.slot - 1]));
    const std::scoped_lock one_sender(sending_);
    send(transport_, from,
         {.verb = Verb::state, .piece = held.id, .slot = header.slot, .bytes = bytes.size()}, bytes,
         {"sending optimizer state"});
    report_.bytes_sent += bytes.size();
  }

  void on_leave(int worker) {
    for (const auto& held : pieces_) {
      if (held) follow(*held, held->ledger->on_leave(worker));
    }
    for (const auto& held : parts_) {
      if (held) follow(*held, held->ledger.on_leave(worker));
    }
  }

  void on_bye(Rank from) {
    here_.erase(to_int(from));
    const std::scoped_lock one_sender(sending_);
    ServerReport so_far = report_;
    so_far.bytes_sent += report_sent_;
    const std::string text = nlohmann::json(so_far).dump();
    send(transport_, from, {.verb = Verb::bye, .bytes = text.size()}, std::as_bytes(std::span(text)),
         {"saying goodbye"});
  }

  // Workers wait for us; whom do we wait for?
  void check_patience() const {
    const auto check = [this](const Ledger& ledger, const auto& since, const std::string& what) {
      if (!since || Clock::now() - *since < options_.timeout) return;
      throw Timeout({transport_.rank(), Rank{ledger.awaited()},
                     fmt::format("push of {}, version {}", what, ledger.version()), elapsed_ms(*since)});
    };
    for (const auto& held : pieces_) {
      if (held) check(*held->ledger, held->waiting_since, fmt::format("piece {}", held->id));
    }
    for (const auto& held : parts_) {
      if (held) check(held->ledger, held->waiting_since, fmt::format("rows of part {}", held->id));
    }
  }

  // In shared memory a reply is a header, which is gone in no time; what travels is left to the sender.
  void queue_reply(const Reply& reply) {
    if (transport_.peer_memory() != nullptr) return send_one(reply);
    pieces_[reply.piece]->unsent.fetch_add(1);
    {
      const std::scoped_lock lock(mutex_);
      replies_.push(reply);
    }
    changed_.notify_one();
  }

  void send_replies() {
    name_thread("replies");
    try {
      while (true) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || !replies_.empty() || !rows_replies_.empty(); });
        if (!rows_replies_.empty()) {
          const RowsReply reply = std::move(rows_replies_.front());
          rows_replies_.pop_front();
          lock.unlock();
          send_rows(reply);
          continue;
        }
        if (replies_.empty()) return;
        const Reply reply = replies_.top();
        replies_.pop();
        lock.unlock();
        send_one(reply);
        pieces_[reply.piece]->unsent.fetch_sub(1);
      }
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      failure_ = std::current_exception();
    }
  }

  void send_one(const Reply& reply) {
    const Held& held = *pieces_[reply.piece];
    Header header{.verb = Verb::piece, .piece = reply.piece, .version = reply.version};
    const Activity doing{"sending parameters"};
    header.slot = static_cast<std::uint32_t>(reply.answering);
    const std::size_t bytes = reply.answering == Answering::whole ? held.count * sizeof(float) : 0;
    const std::scoped_lock one_sender(sending_);
    report_sent_ += bytes;
    if (bytes == 0 || transport_.peer_memory() != nullptr)
      return send(transport_, Rank{reply.worker}, header, {}, doing);
    header.bytes = bytes;
    if (stable()) return send(transport_, Rank{reply.worker}, header, std::as_bytes(held.values), doing);
    {  // a copy, so that a slow reader does not hold up the next update
      const ReadLock lock(*held.gate, Deadline::in(options_.timeout));
      outbox_.assign(held.values.begin(), held.values.end());
    }
    send(transport_, Rank{reply.worker}, header, std::as_bytes(std::span(outbox_)), doing);
  }

  void stop_sending() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    if (sender_.joinable()) sender_.join();
    report_.bytes_sent += std::exchange(report_sent_, 0);
  }

  void check_sender() {
    const std::scoped_lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
  }

  struct alignas(64) Block {
    std::byte bytes[64];
  };

  net::Transport& transport_;
  const ServerOptions& options_;
  const int self_;
  std::set<int> here_;  // workers that have not said goodbye
  nlohmann::json description_;
  std::unique_ptr<Block[]> own_;                  // the pieces, where memory is not shared
  std::vector<std::unique_ptr<Held>> pieces_;     // by id; empty for other servers'
  std::vector<std::unique_ptr<HeldRows>> parts_;  // by id; likewise
  std::vector<float> scratch_;
  RowGradients unwanted_;              // read, and not used
  std::vector<std::uint32_t> wanted_;  // rows that a worker pulls
  ServerReport report_;

  std::mutex sending_;  // one message at a time leaves
  std::vector<float> outbox_;
  std::uint64_t report_sent_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Reply> replies_;  // guarded by mutex_
  std::deque<RowsReply> rows_replies_;  // likewise
  bool stop_ = false;                   // likewise
  std::exception_ptr failure_;          // likewise
  std::thread sender_;
};

}  // namespace

nlohmann::json describe(const ServerOptions& o, const nlohmann::json& model,
                        const std::vector<std::size_t>& bucket_counts, std::size_t piece_bytes) {
  const auto& p = o.policy;
  auto tables = nlohmann::json::array();
  for (const TableShape& t : o.tables) tables.push_back({t.name, t.rows, t.width});
  return {{"tables", tables},
          {"partitions", o.partitions},
          {"model", model},
          {"buckets", bucket_counts},
          {"piece_bytes", piece_bytes},
          {"workers", o.workers},
          {"servers", o.servers},
          {"consistency",
           {{"kind", static_cast<int>(p.consistency)}, {"backup", p.backup}, {"staleness", p.staleness}}},
          {"role", static_cast<int>(o.role)},
          {"damp_stale", o.damp_stale},
          {"optimizer",
           {{"kind", optim::name_of(o.optimizer.kind)},
            {"momentum", o.optimizer.momentum},
            {"beta1", o.optimizer.beta1},
            {"beta2", o.optimizer.beta2},
            {"epsilon", optim::epsilon_of(o.optimizer)},
            {"weight_decay", optim::weight_decay_of(o.optimizer)}}}};
}

ServerReport serve(net::Transport& transport, const ServerOptions& options) {
  return Server(transport, options).run();
}

}  // namespace tutti::ps
