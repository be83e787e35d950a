// Embedding tables: who holds which rows, and gradients of a few of them.
//
// A step touches few rows of a table. Its gradient travels as those rows and their values, and a worker pulls
// only the rows that its next batch will read.
//
// Neighbours are often alike: a vocabulary begins with its most frequent words. So rows are dealt to the
// partitions of a table in turn, and every partition has its share of the work. Where a row stands among all
// of them, partition after partition, is its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/shard_tree.h"

namespace tutti::ps {

struct TableShape {
  std::string name;
  std::size_t rows = 0;
  std::size_t width = 0;  // floats a row
};

// A run of places of a table, held by one server.
struct TablePartition {
  std::size_t table = 0;
  std::size_t first_place = 0;
  std::size_t first_row = 0;  // the row at the first place
  std::size_t stride = 1;     // how many rows further the next place's is
  std::size_t rows = 0;
  std::size_t width = 0;
  int server = 0;
  std::size_t memory_at = 0;  // where the server keeps it (see Layout)

  std::size_t row_at(std::size_t place) const { return first_row + (place - first_place) * stride; }
};

// Cuts every table into so many partitions of equal size (fewer where it has fewer rows), dealt to the
// servers in turn.
std::vector<TablePartition> cut_tables(std::span<const TableShape> tables, int partitions, int servers);

// Where a row stands in a table of so many rows and partitions.
std::uint32_t place_of(std::size_t row, std::size_t rows, std::size_t partitions);

// The partition's rows of a whole table, by place, and back.
std::vector<float> gather(std::span<const float> table, const TablePartition& partition);
void scatter(std::span<const float> rows, const TablePartition& partition, std::span<float> table);

struct RowGradients {
  std::span<const std::uint32_t> rows;  // places, counted from the partition's first
  std::span<const float> values;        // a row of floats for each
};

// What backward leaves: the places of a batch's rows, with repetitions. Sums the gradients of equal ones, in
// the order in which they stand there, into the beginning of `sums`, which has room for all different rows.
// Returns those, rising.
std::vector<std::uint32_t> sum_repeated_rows(std::span<const std::uint32_t> places,
                                             std::span<const float> values, std::size_t width,
                                             std::span<float> sums);

// Gradients of rows, rising, with memory of their own.
struct RowSums {
  std::vector<std::uint32_t> rows = {};
  std::vector<float> values = {};
};
// The sum of two; what is of one alone stays as it is.
RowSums add_rows(const RowGradients& a, const RowGradients& b, std::size_t width);
inline RowGradients view_of(const RowSums& sums) {
  return {sums.rows, sums.values};
}
// The mean over all shards of a tree, added up in its order: `from` are sums over nodes that together are all
// of it, each at the place that `nodes` says. A shard that did not touch a row counts as zero there.
RowSums average_rows(const ShardTree& tree, std::vector<ShardTree::Held> nodes, std::vector<RowSums> from,
                     std::size_t width);

// Forms the mean of several workers' gradients of one partition; a worker that did not touch a row counts as
// zero there. Keeps memory for the whole partition, so that merging takes time for the rows touched only.
class RowMerger {
 public:
  RowMerger(std::size_t rows, std::size_t width) : width_(width), place_(rows) {}

  // In the order given, so that the bits do not depend on who came first. Valid until the next call, and as
  // long as what it was made from.
  RowGradients mean(std::span<const RowGradients> from);

 private:
  std::size_t width_;
  std::vector<std::uint32_t> place_;  // by row: 1 + its place in the result, 0 if it is not there
  std::vector<std::uint32_t> rows_;   // the result
  std::vector<float> values_;
};

// How long an exchange takes with P partitions, after Parallax: t(P) = b / P + a (P - 1) + c. Work that
// partitions share, against what each of them costs.
struct PartitionCost {
  double b = 0;
  double a = 0;
  double c = 0;
  double at(int partitions) const { return b / partitions + a * (partitions - 1) + c; }
};

struct PartitionTrial {
  int partitions = 1;
  double seconds = 0;
};

// The least squares fit to at least three trials with different counts.
PartitionCost fit_partition_cost(std::span<const PartitionTrial> trials);

struct PartitionChoice {
  int partitions = 1;
  std::string reason;
};

// The count between 1 and `most` that the fit says is fastest. A pure function.
PartitionChoice choose_partitions(std::span<const PartitionTrial> trials, int most);

}  // namespace tutti::ps
