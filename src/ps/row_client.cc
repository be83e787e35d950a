#include "ps/row_client.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "base/simd.h"

namespace tutti::ps {
namespace {

using net::Activity;

// Rows that are asked for, or read behind a gate, at a time. Where they travel, one batch is laid into the
// table here while the server picks the next out of its own; in place, updates of other workers come between
// two batches instead of waiting for all.
constexpr std::size_t kRowsAtATime = 1024;

}  // namespace

RowClient::RowClient(Connection& connection, std::vector<ClientTable> tables)
    : connection_(connection),
      requests_(connection.requests()),
      transport_(connection.transport()),
      payloads_(transport_),
      tables_(std::move(tables)),
      order_(sending_order(connection.layout().partitions, tables_.size(), connection.options().servers,
                           to_int(transport_.rank()))) {
  TUTTI_CHECK(tables_.size() == connection.contents().tables.size());
  for (const TablePartition& p : connection.layout().partitions) partitions_.push_back({.where = p});
  requests_.attach(*this);
}

RowClient::~RowClient() {
  requests_.stop();
}

void RowClient::start(std::int64_t version, const std::vector<StateSlot>& state) {
  TUTTI_CHECK(connection_.options().role == Role::update, "servers that only average hold no parameters");
  const Activity doing{"sending initial rows"};
  for (std::uint32_t id = 0; id < partitions_.size(); ++id) {
    const TablePartition& p = partitions_[id].where;
    Header header{
        .verb = Verb::start_rows, .piece = id, .version = version, .bytes = p.rows * p.width * sizeof(float)};
    const auto send_slot = [&](std::span<float> table) {
      const auto rows = gather(table, p);
      send(transport_, server_of(p), header, std::as_bytes(std::span(rows)), doing);
      ++header.slot;
    };
    send_slot(tables_[p.table].values);
    for (const StateSlot& slot : state) send_slot(slot.tables[p.table]);
    const auto lock = requests_.lock();
    partitions_[id].version = version;
  }
  // A row of each partition is asked for by a message, also where workers could read it in place: a server
  // takes messages in order, so its answer says that all of the table has arrived.
  for (std::size_t id = 0; id < partitions_.size(); ++id) {
    const auto place = static_cast<std::uint32_t>(partitions_[id].where.first_place);
    post([this, id, place] { request_rows(id, {place}); });
  }
  wait();
}

void RowClient::pull_all() {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    std::vector<std::uint32_t> all(connection_.contents().tables[t].rows);
    std::iota(all.begin(), all.end(), std::uint32_t{0});
    pull(t, all);
  }
  wait();
}

void RowClient::fetch_state(const std::vector<StateSlot>& state) {
  for (std::uint32_t slot = 0; slot < state.size(); ++slot) {
    for (std::uint32_t id = 0; id < partitions_.size(); ++id) {
      const TablePartition& p = partitions_[id].where;
      std::vector<float> rows(p.rows * p.width);
      connection_.fetch_state(Verb::state_rows, id, p.server, slot + 1, rows);
      scatter(rows, p, state[slot].tables[p.table]);
    }
  }
}

std::vector<std::uint32_t> RowClient::places_of(std::size_t table, std::span<const std::int64_t> rows) const {
  const std::size_t all = connection_.contents().tables[table].rows;
  const std::size_t partitions = order_[table].size();
  std::vector<std::uint32_t> places;
  places.reserve(rows.size());
  for (const std::int64_t row : rows)
    places.push_back(place_of(static_cast<std::size_t>(row), all, partitions));
  return places;
}

std::pair<std::size_t, std::size_t> RowClient::range_in(const TablePartition& partition, Places places) {
  const auto first = std::ranges::lower_bound(places, partition.first_place);
  const auto last = std::ranges::lower_bound(places, partition.first_place + partition.rows);
  return {static_cast<std::size_t>(first - places.begin()), static_cast<std::size_t>(last - places.begin())};
}

// In batches, each of a partition: take(partition, places).
template <typename Take>
void RowClient::for_batches(std::size_t table, Places places, const Take& take) const {
  for (const std::size_t id : order_[table]) {
    const auto [first, last] = range_in(partitions_[id].where, places);
    for (std::size_t at = first; at < last; at += kRowsAtATime)
      take(id, places.subspan(at, std::min(kRowsAtATime, last - at)));
  }
}

void RowClient::post(std::function<void()> send) {
  {
    const auto lock = requests_.lock();
    if (requests_.failed(lock)) return;  // wait() will say it
    ++away_;
    requests_.post(lock, std::move(send));
  }
  requests_.notify();
}

void RowClient::push(std::size_t table, const std::vector<std::vector<std::uint32_t>>& places_of_sums,
                     double lr, PushKind bringing) {
  const auto gradients = tables_[table].gradients;
  const std::size_t width = connection_.contents().tables[table].width;
  // The places of all sums, one after another as their gradients are, and where each begins.
  std::vector<std::uint32_t> together;
  std::vector<std::size_t> begins = {0};
  for (const auto& places : places_of_sums) {
    together.insert(together.end(), places.begin(), places.end());
    begins.push_back(together.size());
  }
  if (places_of_sums.empty()) begins.push_back(0);  // one sum without rows
  TUTTI_CHECK(bringing == PushKind::gradient || together.empty(), "{} rows of nothing", together.size());
  TUTTI_CHECK(together.size() * width <= gradients.size(), "{} rows are too many", together.size());
  const auto all = std::make_shared<const std::vector<std::uint32_t>>(std::move(together));
  // Every partition hears of it, also without rows: each keeps its own ledger, and counts every worker's
  // step.
  for (const std::size_t id : order_[table]) {
    const TablePartition& p = partitions_[id].where;
    std::vector<RowsOfPush> sums;
    for (std::size_t s = 0; s + 1 < begins.size(); ++s) {
      const Places of_sum = Places(*all).subspan(begins[s], begins[s + 1] - begins[s]);
      const auto [first, last] = range_in(p, of_sum);
      sums.push_back({of_sum.subspan(first, last - first),
                      gradients.subspan((begins[s] + first) * width, (last - first) * width)});
    }
    {
      const auto lock = requests_.lock();
      partitions_[id].sent = false;
    }
    post([this, id, lr, bringing, all, sums] { send_push(id, sums, lr, bringing); });
  }
}

void RowClient::send_push(std::size_t id, const std::vector<RowsOfPush>& sums, double lr, PushKind bringing) {
  Header header{.verb = Verb::push_rows,
                .piece = static_cast<std::uint32_t>(id),
                .incarnation = connection_.options().incarnation,
                .flags = bringing == PushKind::nothing ? Header::kVoid : 0,
                .lr = lr};
  for (std::size_t s = 0; s < sums.size(); ++s) {
    Header one = header;
    if (s + 1 < sums.size()) one.flags |= Header::kMore;
    send_rows(id, sums[s], one);
  }
  const auto lock = requests_.lock();
  partitions_[id].sent = true;
}

// A header, the places, and the gradients where they travel. The places have no partition in the header's
// count of bytes: it says how many rows there are.
void RowClient::send_rows(std::size_t id, const RowsOfPush& sum, Header header) {
  header.slot = static_cast<std::uint32_t>(sum.places.size());
  const auto payload = payloads_.announce(header, sum.gradients);
  {
    const auto lock = requests_.lock();
    header.version = partitions_[id].version;
    header.sequence = requests_.next_sequence(lock);
    requests_.count_bytes(lock, sizeof header + sum.places.size_bytes() + sum.gradients.size_bytes());
  }
  const Activity doing{"pushing rows"};
  const Rank server = server_of(partitions_[id].where);
  net::send(transport_, server, std::as_bytes(std::span(&header, 1)), doing);
  if (!sum.places.empty()) net::send(transport_, server, std::as_bytes(sum.places), doing);
  if (!payload.empty()) net::send(transport_, server, payload, doing);
}

void RowClient::pull(std::size_t table, Places places) {
  if (payloads_.in_place()) return read_in_place(table, places);
  for_batches(table, places, [&](std::size_t id, Places batch) {
    post([this, id, own = std::vector(batch.begin(), batch.end())] { request_rows(id, own); });
  });
}

void RowClient::request_rows(std::size_t id, const std::vector<std::uint32_t>& places) {
  const auto numbers = std::as_bytes(std::span(places));
  const Header header{.verb = Verb::pull_rows,
                      .piece = static_cast<std::uint32_t>(id),
                      .slot = static_cast<std::uint32_t>(places.size())};
  {
    // Before it leaves: the answer may come while we still return from sending.
    const auto lock = requests_.lock();
    partitions_[id].wanted.push_back(places);
    requests_.count_bytes(lock, sizeof header + numbers.size());
  }
  const Activity doing{"pulling rows"};
  const Rank server = server_of(partitions_[id].where);
  net::send(transport_, server, std::as_bytes(std::span(&header, 1)), doing);
  net::send(transport_, server, numbers, doing);
}

void RowClient::wait() {
  auto lock = requests_.lock();
  requests_.wait(lock, [&] { return away_ == 0; });
}

std::int64_t RowClient::version() const {
  const auto lock = requests_.lock();
  auto lowest = std::numeric_limits<std::int64_t>::max();
  for (const Track& p : partitions_) lowest = std::min(lowest, p.version);
  return lowest;
}

bool RowClient::handles(const Header& answer) const {
  return (answer.verb == Verb::counted || answer.verb == Verb::rows) && answer.piece < partitions_.size();
}

// One that was asked for rows.
std::optional<Rank> RowClient::awaited() const {
  const auto partition = std::ranges::find_if(partitions_, [](const Track& p) { return !p.wanted.empty(); });
  if (partition == partitions_.end()) return std::nullopt;
  return server_of(partition->where);
}

bool RowClient::on_answer(const Header& answer, Rank from, const Activity& doing) {
  answer.verb == Verb::rows ? on_rows(answer, from, doing) : on_counted(answer);
  return true;
}

void RowClient::on_counted(const Header& answer) {
  // The sender is about to return; whoever waits for the count may write new gradients over the old.
  auto lock = requests_.lock();
  requests_.wait(lock, [&] { return partitions_[answer.piece].sent; });
  if (away_ == 0) throw ProtocolError(fmt::format("partition {}: nothing was to be counted", answer.piece));
  partitions_[answer.piece].version = answer.version;
  --away_;
  requests_.answered(lock);
}

void RowClient::on_rows(const Header& answer, Rank from, const Activity& doing) {
  std::vector<std::uint32_t> places;
  {
    // A server answers in the order of asking, and does not repeat which rows it sends.
    const auto lock = requests_.lock();
    auto& wanted = partitions_[answer.piece].wanted;
    if (wanted.empty() || wanted.front().size() != answer.slot) {
      throw ProtocolError(fmt::format("rank {}: rank {} sent {} rows that nobody asked for",
                                      to_int(transport_.rank()), to_int(from), answer.slot));
    }
    places = std::move(wanted.front());
    wanted.pop_front();
  }
  const TablePartition& p = partitions_[answer.piece].where;
  arriving_.resize(places.size() * p.width);
  receive_payload(transport_, from, answer, std::as_writable_bytes(std::span(arriving_)), doing);
  lay_rows(p, places, [&](std::size_t i) { return arriving_.data() + i * p.width; });
  const auto lock = requests_.lock();
  partitions_[answer.piece].version = answer.version;
  --away_;
  requests_.answered(lock);
}

// Into the table; the i-th row lies at row_at(i), in the order of places.
template <typename RowAt>
void RowClient::lay_rows(const TablePartition& partition, Places places, const RowAt& row_at) {
  const std::size_t width = partition.width;
  float* const table = tables_[partition.table].values.data();
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i + kRowsAhead < places.size()) {
      prefetch_to_read(row_at(i + kRowsAhead), width);
      prefetch_to_write(table + partition.row_at(places[i + kRowsAhead]) * width, width);
    }
    std::copy_n(row_at(i), width, table + partition.row_at(places[i]) * width);
  }
}

std::optional<Payloads::Held> RowClient::held(const TablePartition& partition) const {
  return payloads_.held_by(server_of(partition), partition.memory_at, partition.rows * partition.width);
}

// No gate: nothing is read, only brought near. A server that writes one of these rows meanwhile takes it
// back. Pushes go first: this thread may have the core of the sender.
void RowClient::expect(std::size_t table, Places places) {
  if (!payloads_.in_place()) return;
  {
    auto lock = requests_.lock();
    requests_.wait(lock, [&] { return std::ranges::all_of(partitions_, &Track::sent); });
  }
  for_batches(table, places, [&](std::size_t id, Places batch) {
    const TablePartition& p = partitions_[id].where;
    const float* const shared = held(p)->values.data();
    for (const std::uint32_t place : batch) {
      prefetch_to_read(shared + (place - p.first_place) * p.width, p.width);
      prefetch_to_write(tables_[table].values.data() + p.row_at(place) * p.width, p.width);
    }
  });
}

// Without a word to the server: it finds in the gate how much was read, and we the version.
void RowClient::read_in_place(std::size_t table, Places places) {
  const auto begin = Clock::now();
  {
    const auto lock = requests_.lock();
    // Before the rows are read: they are as new as that, or newer. A version that were taken afterwards might
    // have been made while they were read, and the worker would claim to have seen it.
    for (const std::size_t id : order_[table])
      partitions_[id].version = held(partitions_[id].where)->gate.version;
  }
  for_batches(table, places, [&](std::size_t id, Places batch) {
    const TablePartition& p = partitions_[id].where;
    const auto [gate, values] = *held(p);
    gate.bytes_read += batch.size() * p.width * sizeof(float);
    const ReadLock lock(gate, transport_.rank(), server_of(p), Deadline::in(connection_.options().timeout));
    lay_rows(p, batch, [&, shared = values.data()](std::size_t i) {
      return shared + (batch[i] - p.first_place) * p.width;
    });
  });
  const auto lock = requests_.lock();
  requests_.count_busy_time(lock, Clock::now() - begin);
}

}  // namespace tutti::ps
