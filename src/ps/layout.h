// Which server holds what: a pure function that workers and servers compute alike.
//
// A model is a list of buckets (src/grad/buckets.h), each a run of floats. Every bucket is cut into pieces of
// equal size, dealt to the servers in turn. So each server holds its share of every bucket, to within a few
// floats, and all servers are busy from the first gradient of a step to the last.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "net/transport.h"
#include "ps/contents.h"

namespace tutti::ps {

struct Piece {
  std::size_t bucket = 0;
  std::size_t first = 0;  // in its bucket, in floats
  std::size_t count = 0;
  int server = 0;
  std::size_t memory_at = 0;  // where the server keeps it (see Layout)
};

// How large a piece should be where nobody says.
std::size_t usual_piece_bytes(net::Transport& transport);

// Pieces are of about `piece_bytes`, less than twice that. None for no floats. Throws ConfigError if there
// are more servers than floats.
std::vector<Piece> cut_into_pieces(std::span<const std::size_t> bucket_counts, int servers,
                                   std::size_t piece_bytes);

// Everything that servers hold, and where. Each has one stretch of memory, which workers read where it is
// shared; `memory_at` is a place in it, in bytes, where a gate (ps/gate.h) stands, and what it guards
// follows.
struct Layout {
  std::vector<Piece> pieces;
  std::vector<TablePartition> partitions;
  std::vector<std::size_t> bytes;  // of memory, by server
};
Layout lay_out(const Contents& contents, int servers);

// Each bucket's pieces, or each table's partitions, in the order in which a worker sends and asks: round by
// round over the servers, and in every round each worker begins with another one, so that together they keep
// all servers' links busy.
using Order = std::vector<std::vector<std::size_t>>;
Order sending_order(std::span<const Piece> pieces, std::size_t buckets, int servers, int worker);
Order sending_order(std::span<const TablePartition> partitions, std::size_t tables, int servers, int worker);

}  // namespace tutti::ps
