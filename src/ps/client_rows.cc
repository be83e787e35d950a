// The client's half for rows of tables.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/simd.h"
#include "ps/client.h"
#include "ps/gate.h"

namespace tutti::ps {

using net::Activity;

namespace {

constexpr std::size_t kPortion = 1024;  // rows

}  // namespace

void Client::start_tables(std::int64_t version, const std::vector<StateSlot>& state) {
  const Activity doing{"sending initial rows"};
  for (std::uint32_t id = 0; id < parts_.size(); ++id) {
    const TablePart& p = parts_[id].where;
    Header header{
        .verb = Verb::start_rows, .piece = id, .version = version, .bytes = p.rows * p.width * sizeof(float)};
    const auto send_slot = [&](std::span<float> table) {
      const auto rows = gather(table, p);
      send(transport_, server_rank(p.server), header, std::as_bytes(std::span(rows)), doing);
      ++header.slot;
    };
    send_slot(tables_[p.table].values);
    for (const StateSlot& slot : state) send_slot(slot.tables[p.table]);
    const std::scoped_lock lock(mutex_);
    parts_[id].version = version;
  }
  // A row of each, which is answered when all of it has arrived.
  for (std::size_t id = 0; id < parts_.size(); ++id) {
    const auto row = static_cast<std::uint32_t>(parts_[id].where.first_place);
    enqueue([this, id, row] { send_wish(id, {row}); });
  }
  wait_rows();
}

std::pair<std::size_t, std::size_t> Client::rows_in(const TablePart& part,
                                                    std::span<const std::uint32_t> rows) {
  const auto first = std::ranges::lower_bound(rows, part.first_place);
  const auto last = std::ranges::lower_bound(rows, part.first_place + part.rows);
  return {static_cast<std::size_t>(first - rows.begin()), static_cast<std::size_t>(last - rows.begin())};
}

// In portions, each of a part: take(part, rows).
template <typename Take>
void Client::for_portions(std::size_t table, std::span<const std::uint32_t> rows, const Take& take) const {
  for (const std::size_t id : part_order_[table]) {
    const auto [first, last] = rows_in(parts_[id].where, rows);
    for (std::size_t at = first; at < last; at += kPortion)
      take(id, rows.subspan(at, std::min(kPortion, last - at)));
  }
}

std::vector<std::uint32_t> Client::places_of(std::size_t table, std::span<const std::int64_t> rows) const {
  const std::size_t all = shapes_[table].rows;
  const std::size_t parts = part_order_[table].size();
  std::vector<std::uint32_t> places;
  places.reserve(rows.size());
  for (const std::int64_t row : rows) places.push_back(place_of(static_cast<std::size_t>(row), all, parts));
  return places;
}

void Client::push_rows(std::size_t table, std::vector<std::uint32_t> rows, double lr, Bringing bringing) {
  const auto gradients = tables_[table].gradients;
  TUTTI_CHECK(bringing == Bringing::gradient || rows.empty(), "{} rows of nothing", rows.size());
  TUTTI_CHECK(rows.size() * shapes_[table].width <= gradients.size(), "{} rows are too many", rows.size());
  const auto all = std::make_shared<const std::vector<std::uint32_t>>(std::move(rows));
  for (const std::size_t id : part_order_[table]) {
    const TablePart& p = parts_[id].where;
    const auto [first, last] = rows_in(p, *all);
    {
      const std::scoped_lock lock(mutex_);
      parts_[id].sent = false;
    }
    enqueue([this, id, lr, bringing, all, own = std::span(*all).subspan(first, last - first),
             values = gradients.subspan(first * p.width, (last - first) * p.width)] {
      send_rows(id, own, values, lr, bringing);
    });
  }
}

void Client::send_rows(std::size_t id, std::span<const std::uint32_t> rows, std::span<const float> gradients,
                       double lr, Bringing bringing) {
  const bool shared = transport_.peer_memory() != nullptr;
  const auto bytes = std::as_bytes(gradients);
  Header header{.verb = Verb::push_rows,
                .piece = static_cast<std::uint32_t>(id),
                .slot = static_cast<std::uint32_t>(rows.size()),
                .incarnation = options_.incarnation,
                .flags = bringing == Bringing::nothing ? Header::kVoid : 0,
                .lr = lr,
                .memory_at = shared ? place_in_arena(gradients.data()) : 0,
                .bytes = shared ? 0 : bytes.size()};
  {
    const std::scoped_lock lock(mutex_);
    header.version = parts_[id].version;
    header.sequence = ++sequence_;
    bytes_sent_ += sizeof header + rows.size_bytes() + bytes.size();
  }
  const Activity doing{"pushing rows"};
  const Rank server = server_rank(parts_[id].where.server);
  net::send(transport_, server, std::as_bytes(std::span(&header, 1)), doing);
  if (!rows.empty()) net::send(transport_, server, std::as_bytes(rows), doing);
  if (!rows.empty() && !shared) net::send(transport_, server, bytes, doing);
  {
    const std::scoped_lock lock(mutex_);
    parts_[id].sent = true;
  }
  changed_.notify_all();
}

// Where rows travel, in portions: while one is laid into the table here, the next is picked out of the
// server's. In shared memory we know where they lie.
void Client::pull_rows(std::size_t table, std::span<const std::uint32_t> rows) {
  if (transport_.peer_memory() != nullptr) return read_rows(table, rows);
  for_portions(table, rows, [&](std::size_t id, std::span<const std::uint32_t> portion) {
    enqueue([this, id, own = std::vector(portion.begin(), portion.end())] { send_wish(id, own); });
  });
}

void Client::send_wish(std::size_t id, const std::vector<std::uint32_t>& rows) {
  const auto numbers = std::as_bytes(std::span(rows));
  const Header header{.verb = Verb::pull_rows,
                      .piece = static_cast<std::uint32_t>(id),
                      .slot = static_cast<std::uint32_t>(rows.size())};
  {
    const std::scoped_lock lock(mutex_);
    parts_[id].wanted.push_back(rows);
    bytes_sent_ += sizeof header + numbers.size();
  }
  const Activity doing{"pulling rows"};
  const Rank server = server_rank(parts_[id].where.server);
  net::send(transport_, server, std::as_bytes(std::span(&header, 1)), doing);
  net::send(transport_, server, numbers, doing);
}

void Client::wait_rows() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || rows_away_ == 0; });
  rethrow();
}

void Client::pull_tables() {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    std::vector<std::uint32_t> all(shapes_[t].rows);
    std::iota(all.begin(), all.end(), std::uint32_t{0});
    pull_rows(t, all);
  }
  wait_rows();
}

void Client::rows_counted(const Header& header) {
  // The sender is about to return; whoever waits for the count may write new gradients over the old.
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return parts_[header.piece].sent || stop_; });
  if (rows_away_ == 0) throw ProtocolError(fmt::format("part {}: nothing was to be counted", header.piece));
  parts_[header.piece].version = header.version;
  if (away_ + --rows_away_ == 0) busy_ += Clock::now() - busy_since_;
}

// Into the table; the i-th row lies at row_at(i), in the order of places.
template <typename RowAt>
void Client::lay_rows(const TablePart& part, std::span<const std::uint32_t> rows, const RowAt& row_at) {
  const std::size_t width = part.width;
  float* const table = tables_[part.table].values.data();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + kRowsAhead < rows.size()) {
      prefetch_to_read(row_at(i + kRowsAhead), width);
      prefetch_to_write(table + part.row_at(rows[i + kRowsAhead]) * width, width);
    }
    std::copy_n(row_at(i), width, table + part.row_at(rows[i]) * width);
  }
}

Gate& Client::gate_of(const TablePart& part) const {
  return gate_at(transport_.peer_memory()->arena(server_rank(part.server)), part.memory_at);
}

const float* Client::shared_rows(const TablePart& part) const {
  const auto held = transport_.peer_memory()->arena(server_rank(part.server));
  return values_behind(held, part.memory_at, part.rows * part.width).data();
}

// A server that writes one of them meanwhile takes it back. Pushes go first: this thread may have the core of
// the sender.
void Client::expect_rows(std::size_t table, std::span<const std::uint32_t> rows) {
  if (transport_.peer_memory() == nullptr) return;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || std::ranges::all_of(parts_, &PartTrack::sent); });
  }
  for_portions(table, rows, [&](std::size_t id, std::span<const std::uint32_t> portion) {
    const TablePart& p = parts_[id].where;
    const float* const shared = shared_rows(p);
    for (const std::uint32_t place : portion) {
      prefetch_to_read(shared + (place - p.first_place) * p.width, p.width);
      prefetch_to_write(tables_[table].values.data() + p.row_at(place) * p.width, p.width);
    }
  });
}

// Updates of other workers come between two portions.
void Client::read_rows(std::size_t table, std::span<const std::uint32_t> rows) {
  const auto begin = Clock::now();
  {
    const std::scoped_lock lock(mutex_);
    for (const std::size_t id : part_order_[table])
      parts_[id].version = gate_of(parts_[id].where).version;  // or newer
  }
  for_portions(table, rows, [&](std::size_t id, std::span<const std::uint32_t> portion) {
    const TablePart& p = parts_[id].where;
    const float* const shared = shared_rows(p);
    Gate& gate = gate_of(p);
    gate.bytes_read += portion.size() * p.width * sizeof(float);
    const ReadLock lock(gate, transport_.rank(), server_rank(p.server), Deadline::in(options_.timeout));
    lay_rows(p, portion, [&](std::size_t i) { return shared + (portion[i] - p.first_place) * p.width; });
  });
  const std::scoped_lock lock(mutex_);
  if (away_ + rows_away_ == 0) busy_ += Clock::now() - begin;
}

void Client::rows_came(const Header& header, Rank from, const Activity& doing) {
  std::vector<std::uint32_t> rows;
  {
    const std::scoped_lock lock(mutex_);
    auto& wanted = parts_[header.piece].wanted;
    if (wanted.empty() || wanted.front().size() != header.slot) {
      throw ProtocolError(fmt::format("rank {}: rank {} sent {} rows that nobody asked for",
                                      to_int(transport_.rank()), to_int(from), header.slot));
    }
    rows = std::move(wanted.front());
    wanted.pop_front();
  }
  const TablePart& p = parts_[header.piece].where;
  incoming_rows_.resize(rows.size() * p.width);
  receive_payload(transport_, from, header, std::as_writable_bytes(std::span(incoming_rows_)), doing);
  lay_rows(p, rows, [&](std::size_t i) { return incoming_rows_.data() + i * p.width; });
  const std::scoped_lock lock(mutex_);
  parts_[header.piece].version = header.version;
  if (away_ + --rows_away_ == 0) busy_ += Clock::now() - busy_since_;
}

}  // namespace tutti::ps
