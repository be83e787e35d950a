#include "ps/layout.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ps/gate.h"

namespace tutti::ps {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

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
    const std::size_t rounds = std::max<std::size_t>(1, count * sizeof(float) / (s * piece_bytes));
    const std::size_t parts = std::min(s * rounds, count);
    for (std::size_t i = 0; i < parts; ++i, ++next) {
      const std::size_t first = count * i / parts;
      pieces.push_back({b, first, count * (i + 1) / parts - first, static_cast<int>(next % s)});
    }
  }
  // In a server's memory a gate stands before each piece.
  std::vector<std::size_t> used(s);
  for (Piece& p : pieces) {
    std::size_t& at = used[static_cast<std::size_t>(p.server)];
    p.memory_at = at;
    at += aligned(sizeof(Gate)) + aligned(p.count * sizeof(float));
  }
  return pieces;
}

std::vector<std::vector<std::size_t>> sending_order(std::span<const Piece> pieces, std::size_t buckets,
                                                    int servers, int worker) {
  std::vector<std::vector<std::size_t>> order(buckets);
  for (std::size_t id = 0; id < pieces.size(); ++id) order[pieces[id].bucket].push_back(id);
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

}  // namespace tutti::ps
