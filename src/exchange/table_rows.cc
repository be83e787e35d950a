#include "exchange/table_rows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tutti::exchange {

TableRows::TableRows(const grad::Tables& tables, Updater& updater, ps::RowClient& client,
                     const ShardGradients* shards)
    : tables_(tables),
      updater_(updater),
      client_(client),
      shards_(shards),
      passes_(tables.size()),
      waiting_(tables.size()),
      taken_(tables.size()),
      expected_(tables.size()),
      touched_(tables.size()) {}

void TableRows::on_gradient(std::size_t table) {
  take(table);
  if (!updater_.finite().skips()) push(table, true);
}

void TableRows::take(std::size_t table) {
  Taken& taken = taken_[table];
  TUTTI_CHECK(!taken.here, "table {} is announced twice", table);
  taken.here = true;
  const auto room = client_.gradients(table);
  if (shards_ == nullptr) {
    taken.rows.push_back(sum_gradient(table, [&](std::size_t) { return room; }));
  } else {
    add_shard(table);
    auto free = room;
    for (auto& sum : std::exchange(waiting_[table], {}).sums) {
      TUTTI_CHECK(sum.values.size() <= free.size(), "no room for {} rows", sum.rows.size());
      std::ranges::copy(sum.values, free.begin());
      free = free.subspan(sum.values.size());
      taken.rows.push_back(std::move(sum.rows));
    }
  }
  std::size_t rows = 0;
  for (const auto& of_sum : taken.rows) rows += of_sum.size();
  if (shards_ == nullptr) {
    updater_.finite().own_rows(tables_.name(table), room.first(rows * tables_.width(table)));
  }
  touched_[table] += static_cast<double>(rows);
}

// Adds up what backward has left, in memory for so many floats. Returns the places, rising.
std::vector<std::uint32_t> TableRows::sum_gradient(
    std::size_t table, const std::function<std::span<float>(std::size_t floats)>& room) {
  const auto gradient = tables_.take_gradient(table);
  const std::size_t width = tables_.width(table);
  const auto count = static_cast<std::size_t>(gradient.rows.numel());
  const auto places = client_.places_of(table, {gradient.rows.data_ptr<std::int64_t>(), count});
  return ps::sum_repeated_rows(places, {gradient.values.data_ptr<float>(), count * width}, width,
                               room(count * width));
}

// Each pass is added up by itself, as torch adds it to the gradient of a whole table: so both have the same
// bits.
ps::RowSums TableRows::take_passes(std::size_t table) {
  ps::RowSums sum;
  sum.rows = sum_gradient(table, [&](std::size_t floats) {
    sum.values.resize(floats);
    return std::span(sum.values);
  });
  sum.values.resize(sum.rows.size() * tables_.width(table));
  const ps::RowSums before = std::exchange(passes_[table], {});
  if (before.rows.empty()) return sum;
  return ps::add_rows(ps::view_of(before), ps::view_of(sum), tables_.width(table));
}

void TableRows::end_pass(std::size_t table) {
  if (shards_ != nullptr) passes_[table] = take_passes(table);
}

void TableRows::add_shard(std::size_t table) {
  auto& [nodes, sums, done] = waiting_[table];
  ps::RowSums sum = take_passes(table);
  updater_.finite().own_rows(tables_.name(table), sum.values);
  shards_->tree().take_in(nodes, {shards_->run().first + done++, 1}, [&, &sums = sums](std::size_t brother) {
    sum = ps::add_rows(ps::view_of(sums[brother]), ps::view_of(sum), tables_.width(table));
    sums.pop_back();
  });
  sums.push_back(std::move(sum));
}

void TableRows::set_aside() {
  for (std::size_t t = 0; t < tables_.size(); ++t) add_shard(t);
}

void TableRows::push(std::size_t table, bool usable) {
  Taken& taken = taken_[table];
  taken.pushed = true;
  if (usable) {
    client_.push(table, taken.rows, updater_.lr());
  } else {
    client_.push(table, {}, updater_.lr(), ps::PushKind::nothing);
  }
}

bool TableRows::collect() {
  if (tables_.size() == 0) return true;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (!taken_[t].here) take(t);
  }
  // Where the loss could not be used, its gradients cannot, whatever has become of them on their way.
  return updater_.finite().found().empty();
}

void TableRows::expect(std::size_t table, std::span<const std::int64_t> rows) {
  auto& expected = expected_[table];
  expected = client_.places_of(table, rows);
  std::ranges::sort(expected);
  const auto repeated = std::ranges::unique(expected);
  expected.erase(repeated.begin(), repeated.end());
}

void TableRows::finish_step(bool usable) {
  const auto begin = Clock::now();
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (!taken_[t].here) take(t);
    if (!taken_[t].pushed) push(t, usable);
  }
  for (std::size_t t = 0; t < tables_.size(); ++t) client_.expect(t, expected_[t]);
  client_.wait();  // what comes back shall have this step in it
  for (std::size_t t = 0; t < tables_.size(); ++t) client_.pull(t, std::exchange(expected_[t], {}));
  client_.wait();
  taken_.assign(tables_.size(), {});
  ++steps_;
  last_wait_ = Clock::now() - begin;
}

std::vector<double> TableRows::take_densities() {
  std::vector<double> densities;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const double readings = static_cast<double>(std::max<std::int64_t>(1, steps_)) *
                            static_cast<double>(std::max<std::size_t>(1, tables_.rows(t)));
    densities.push_back(std::exchange(touched_[t], 0.0) / readings);
  }
  steps_ = 0;
  return densities;
}

std::vector<ps::TableShape> shapes_of(const grad::Tables& tables) {
  std::vector<ps::TableShape> shapes;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    shapes.push_back({tables.name(t), tables.rows(t), tables.width(t)});
  }
  return shapes;
}

std::vector<ps::ClientTable> client_tables(const grad::Tables& tables, collectives::Collectives& workers,
                                           const ShardGradients* shards) {
  // As many sums of shards as any worker brings, and each may have every row.
  const int sums = shards != nullptr ? shards->tree().places_of(workers.world()) : 1;
  std::vector<ps::ClientTable> list;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const auto values = tables.values(t);
    const std::size_t floats = static_cast<std::size_t>(sums) * values.size();
    const auto room = workers.allocate(floats * sizeof(float));
    list.push_back({values, {reinterpret_cast<float*>(room.data()), floats}});
  }
  return list;
}

}  // namespace tutti::exchange
