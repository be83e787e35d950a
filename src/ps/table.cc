#include "ps/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace tutti::ps {

std::vector<TablePartition> cut_tables(std::span<const TableShape> tables, int partitions, int servers) {
  TUTTI_CHECK(partitions >= 1 && servers >= 1);
  std::vector<TablePartition> all;
  std::size_t next = 0;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const std::size_t rows = tables[t].rows;
    const std::size_t count = std::min(static_cast<std::size_t>(partitions), std::max<std::size_t>(rows, 1));
    for (std::size_t i = 0; i < count; ++i, ++next) {
      all.push_back({.table = t,
                     .first_place = place_of(i, rows, count),
                     .first_row = i,
                     .stride = count,
                     .rows = rows / count + (i < rows % count ? 1 : 0),
                     .width = tables[t].width,
                     .server = static_cast<int>(next % static_cast<std::size_t>(servers))});
    }
  }
  return all;
}

// Partitions before row's have rows / partitions each, the first few of them one more.
std::uint32_t place_of(std::size_t row, std::size_t rows, std::size_t partitions) {
  const std::size_t partition = row % partitions;
  return static_cast<std::uint32_t>(partition * (rows / partitions) + std::min(partition, rows % partitions) +
                                    row / partitions);
}

std::vector<float> gather(std::span<const float> table, const TablePartition& partition) {
  std::vector<float> rows(partition.rows * partition.width);
  for (std::size_t i = 0; i < partition.rows; ++i) {
    const auto row =
        table.subspan((partition.first_row + i * partition.stride) * partition.width, partition.width);
    std::ranges::copy(row, rows.begin() + static_cast<std::ptrdiff_t>(i * partition.width));
  }
  return rows;
}

void scatter(std::span<const float> rows, const TablePartition& partition, std::span<float> table) {
  for (std::size_t i = 0; i < partition.rows; ++i) {
    const auto into =
        table.subspan((partition.first_row + i * partition.stride) * partition.width, partition.width);
    std::ranges::copy(rows.subspan(i * partition.width, partition.width), into.begin());
  }
}

std::vector<std::uint32_t> sum_repeated_rows(std::span<const std::uint32_t> places,
                                             std::span<const float> values, std::size_t width,
                                             std::span<float> sums) {
  TUTTI_CHECK(values.size() == places.size() * width, "{} values for {} rows of {}", values.size(),
              places.size(), width);
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return places[i]; });
  std::vector<std::uint32_t> different;
  different.reserve(places.size());
  for (const std::size_t i : order) {
    const std::uint32_t row = places[i];
    const float* from = values.data() + i * width;
    const bool again = !different.empty() && different.back() == row;
    if (!again) different.push_back(row);
    TUTTI_CHECK(different.size() * width <= sums.size(), "no room for {} rows", different.size());
    float* into = sums.data() + (different.size() - 1) * width;
    for (std::size_t k = 0; k < width; ++k) into[k] = again ? into[k] + from[k] : from[k];
  }
  return different;
}

// Rows rise in both, so that one pass merges them. One that a single side has is taken over and not added to
// zeros, which would turn -0 into 0.
RowSums add_rows(const RowGradients& a, const RowGradients& b, std::size_t width) {
  RowSums sum;
  sum.rows.reserve(a.rows.size() + b.rows.size());
  sum.values.reserve(a.values.size() + b.values.size());
  std::size_t i = 0;
  std::size_t j = 0;
  const auto take = [&](const RowGradients& from, std::size_t at) {
    const float* values = from.values.data() + at * width;
    sum.rows.push_back(from.rows[at]);
    sum.values.insert(sum.values.end(), values, values + width);
  };
  while (i < a.rows.size() || j < b.rows.size()) {
    const bool of_a = j == b.rows.size() || (i < a.rows.size() && a.rows[i] <= b.rows[j]);
    const bool of_b = i == a.rows.size() || (j < b.rows.size() && b.rows[j] <= a.rows[i]);
    of_a ? take(a, i) : take(b, j);
    if (of_a && of_b) {
      float* into = sum.values.data() + sum.values.size() - width;
      for (std::size_t k = 0; k < width; ++k) into[k] += b.values[j * width + k];
    }
    i += of_a ? 1 : 0;
    j += of_b ? 1 : 0;
  }
  return sum;
}

RowSums average_rows(const ShardTree& tree, std::vector<ShardTree::Held> nodes, std::vector<RowSums> from,
                     std::size_t width) {
  for (const auto& [into, other] : tree.join(nodes)) {
    RowSums& sum = from[static_cast<std::size_t>(into)];
    sum = add_rows(view_of(sum), view_of(from[static_cast<std::size_t>(other)]), width);
  }
  TUTTI_CHECK(nodes.size() == 1 && nodes[0].node == tree.root(), "{} nodes are left of the tree",
              nodes.size());
  RowSums mean = std::move(from[static_cast<std::size_t>(nodes[0].place)]);
  const auto shards = static_cast<float>(tree.shards());
  for (float& v : mean.values) v /= shards;
  return mean;
}

RowGradients RowMerger::mean(std::span<const RowGradients> from) {
  TUTTI_CHECK(!from.empty());
  if (from.size() == 1) return from[0];
  rows_.clear();
  values_.clear();
  for (const RowGradients& g : from) {
    for (std::size_t i = 0; i < g.rows.size(); ++i) {
      const float* values = g.values.data() + i * width_;
      std::uint32_t& place = place_[g.rows[i]];
      if (place == 0) {
        rows_.push_back(g.rows[i]);
        values_.insert(values_.end(), values, values + width_);
        place = static_cast<std::uint32_t>(rows_.size());
      } else {
        float* into = values_.data() + (place - 1) * width_;
        for (std::size_t k = 0; k < width_; ++k) into[k] += values[k];
      }
    }
  }
  for (const std::uint32_t row : rows_) place_[row] = 0;
  const auto workers = static_cast<float>(from.size());
  for (float& v : values_) v /= workers;
  return {rows_, values_};
}

namespace {

// Solves a 3x3 system by elimination with pivoting.
std::array<double, 3> solve(std::array<std::array<double, 4>, 3> m) {
  for (std::size_t k = 0; k < 3; ++k) {
    std::size_t pivot = k;
    for (std::size_t r = k; r < 3; ++r) {
      if (std::abs(m[r][k]) > std::abs(m[pivot][k])) pivot = r;
    }
    std::swap(m[k], m[pivot]);
    TUTTI_CHECK(m[k][k] != 0, "trials with three different counts are needed");
    for (std::size_t r = 0; r < 3; ++r) {
      if (r == k) continue;
      const double factor = m[r][k] / m[k][k];
      for (std::size_t c = k; c < 4; ++c) m[r][c] -= factor * m[k][c];
    }
  }
  return {m[0][3] / m[0][0], m[1][3] / m[1][1], m[2][3] / m[2][2]};
}

}  // namespace

PartitionCost fit_partition_cost(std::span<const PartitionTrial> trials) {
  TUTTI_CHECK(trials.size() >= 3);
  std::array<std::array<double, 4>, 3> normal{};
  for (const PartitionTrial& t : trials) {
    const std::array<double, 4> x{1.0 / t.partitions, t.partitions - 1.0, 1.0, t.seconds};
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t c = 0; c < 4; ++c) normal[r][c] += x[r] * x[c];
    }
  }
  const auto [b, a, c] = solve(normal);
  return {b, a, c};
}

PartitionChoice choose_partitions(std::span<const PartitionTrial> trials, int most) {
  const PartitionCost cost = fit_partition_cost(trials);
  int best = 1;
  for (int p = 2; p <= most; ++p) {
    if (cost.at(p) < cost.at(best)) best = p;
  }
  std::string tried;
  for (const PartitionTrial& t : trials) {
    tried += fmt::format("{}{}: {:.2f} ms", tried.empty() ? "" : ", ", t.partitions, t.seconds * 1e3);
  }
  return {best,
          fmt::format("t(P) = {:.3f}/P + {:.3f} (P-1) + {:.3f} ms fits {}: {} partitions take {:.2f} ms",
                      cost.b * 1e3, cost.a * 1e3, cost.c * 1e3, tried, best, cost.at(best) * 1e3)};
}

}  // namespace tutti::ps
