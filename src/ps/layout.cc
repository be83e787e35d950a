#include "ps/layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "ps/gate.h"
#include "ps/payload.h"

namespace tutti::ps {
namespace {

// What a piece or a partition takes, so that the gate of the next one stands at a place that is aligned for
// it.
std::size_t aligned(std::size_t bytes) {
  return (bytes + alignof(Gate) - 1) / alignof(Gate) * alignof(Gate);
}

// `order` is as items were dealt to the servers.
Order taken_in_turns(Order order, int servers, int worker) {
  const auto s = static_cast<std::size_t>(servers);
  for (auto& ids : order) {
    for (std::size_t first = 0; first < ids.size(); first += s) {
      const auto round = std::span(ids).subspan(first, std::min(s, ids.size() - first));
      const auto turn = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(worker) % round.size());
      std::rotate(round.begin(), round.begin() + turn, round.end());
    }
  }
  return order;
}

}  // namespace

// Where pieces travel, small ones: the answer to the first is on its way while the rest still come. In place
// there is nothing to overlap, and each piece costs two wake-ups.
std::size_t usual_piece_bytes(net::Transport& transport) {
  return Payloads(transport).in_place() ? 1 << 20 : 256 << 10;
}

std::vector<Piece> cut_into_pieces(std::span<const std::size_t> bucket_counts, int servers,
                                   std::size_t piece_bytes) {
  TUTTI_CHECK(servers >= 1 && piece_bytes >= 1);
  const auto s = static_cast<std::size_t>(servers);
  const std::size_t total = std::accumulate(bucket_counts.begin(), bucket_counts.end(), std::size_t{0});
  if (total == 0) return {};
  if (total < s)
    throw ConfigError(fmt::format("--servers {}: the model has only {} parameters", servers, total));
  std::vector<Piece> pieces;
  std::size_t next = 0;  // the server whose turn it is; small buckets do not all go to the first
  for (std::size_t b = 0; b < bucket_counts.size(); ++b) {
    const std::size_t count = bucket_counts[b];
    // In each round every server gets a piece. Their number is rounded down: a piece is up to twice as large
    // as was asked for, and all of a bucket have the same size.
    const std::size_t rounds = std::max<std::size_t>(1, count * sizeof(float) / (s * piece_bytes));
    const std::size_t cuts = std::min(s * rounds, count);
    for (std::size_t i = 0; i < cuts; ++i, ++next) {
      const std::size_t first = count * i / cuts;
      pieces.push_back({b, first, count * (i + 1) / cuts - first, static_cast<int>(next % s)});
    }
  }
  return pieces;
}

Layout lay_out(const Contents& contents, int servers) {
  Layout layout{cut_into_pieces(contents.buckets, servers, contents.piece_bytes),
                cut_tables(contents.tables, contents.partitions, servers),
                std::vector<std::size_t>(static_cast<std::size_t>(servers))};
  const auto place = [&](int server, std::size_t floats) {
    std::size_t& used = layout.bytes[static_cast<std::size_t>(server)];
    return std::exchange(used, used + sizeof(Gate) + aligned(floats * sizeof(float)));
  };
  for (Piece& p : layout.pieces) p.memory_at = place(p.server, p.count);
  for (TablePartition& p : layout.partitions) p.memory_at = place(p.server, p.rows * p.width);
  return layout;
}

Order sending_order(std::span<const Piece> pieces, std::size_t buckets, int servers, int worker) {
  Order order(buckets);
  for (std::size_t id = 0; id < pieces.size(); ++id) order[pieces[id].bucket].push_back(id);
  return taken_in_turns(std::move(order), servers, worker);
}

Order sending_order(std::span<const TablePartition> partitions, std::size_t tables, int servers, int worker) {
  Order order(tables);
  for (std::size_t id = 0; id < partitions.size(); ++id) order[partitions[id].table].push_back(id);
  return taken_in_turns(std::move(order), servers, worker);
}

}  // namespace tutti::ps
