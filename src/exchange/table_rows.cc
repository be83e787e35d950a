#include "exchange/table_rows.h"

#include <algorithm>

#include "base/error.h"

namespace tutti::exchange {

TableRows::TableRows(const grad::Tables& tables, Updater& updater, ps::RowClient& client)
    : tables_(tables),
      updater_(updater),
      client_(client),
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
  const auto gradient = tables_.take_gradient(table);
  const auto count = static_cast<std::size_t>(gradient.rows.numel());
  const auto places = client_.places_of(table, {gradient.rows.data_ptr<std::int64_t>(), count});
  taken.rows =
      ps::sum_repeated_rows(places, {gradient.values.data_ptr<float>(), count * tables_.width(table)},
                            tables_.width(table), client_.gradients(table));
  taken.here = true;
  const auto sums = client_.gradients(table).first(taken.rows.size() * tables_.width(table));
  updater_.finite().own_rows(tables_.name(table), sums);
  touched_[table] += static_cast<double>(taken.rows.size());
}

void TableRows::push(std::size_t table, bool usable) {
  Taken& taken = taken_[table];
  taken.pushed = true;
  if (usable) {
    client_.push(table, std::move(taken.rows), updater_.lr());
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

std::vector<ps::ClientTable> client_tables(const grad::Tables& tables, collectives::Collectives& workers) {
  std::vector<ps::ClientTable> list;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const auto values = tables.values(t);
    const auto room = workers.allocate(values.size_bytes());
    list.push_back({values, {reinterpret_cast<float*>(room.data()), values.size()}});
  }
  return list;
}

}  // namespace tutti::exchange
