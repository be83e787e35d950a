#include "group.h"

#include <algorithm>

#include "base/error.h"

namespace tutti::torch_backend {

net::Announcement announcement(Shared what, std::size_t bytes, int type, int op, int root) {
  const auto byte = [](int value, int n) { return static_cast<std::uint64_t>(value) << (8 * n); };
  return {byte(static_cast<int>(what), 0) | byte(type, 1) | byte(op, 2) | byte(root, 4), bytes, 0};
}

Group::Group(Links links)
    : links_(std::move(links)),
      engine_(*links_.collectives, std::nullopt, {links_.hosts, links_.neighbours.get()}),
      messages_(std::move(links_.messages)) {
  if (links_.exchanges) shared_.emplace(std::move(links_.exchanges));
}

void Group::all_reduce(const collectives::Buffer& buffer, collectives::ReduceOp op) {
  if (!shared_) return engine_.all_reduce(buffer, op);
  shared_->all_reduce(
      buffer, op,
      announcement(Shared::all_reduce, buffer.bytes(), static_cast<int>(buffer.type), static_cast<int>(op)));
}

void Group::reduce(const collectives::Buffer& buffer, collectives::ReduceOp op, int root) {
  engine_.reduce(buffer, op, Rank{root});
}

void Group::reduce_scatter(const collectives::Buffer& buffer, collectives::ReduceOp op) {
  TUTTI_CHECK(buffer.count % static_cast<std::size_t>(world()) == 0, "{} elements", buffer.count);
  engine_.reduce_scatter(buffer, op);
}

void Group::broadcast(Bytes bytes, int root) {
  constexpr std::size_t kWord = sizeof(std::int32_t);  // what the engine moves
  if (bytes.size() % kWord == 0) {
    return engine_.broadcast({bytes.data(), bytes.size() / kWord, DType::i32}, Rank{root});
  }
  const std::size_t words = bytes.size() / kWord + 1;
  padded_.resize(words * kWord);
  std::ranges::copy(bytes, padded_.begin());
  engine_.broadcast({padded_.data(), words, DType::i32}, Rank{root});
  std::copy_n(padded_.begin(), bytes.size(), bytes.begin());
}

void Group::barrier() {
  engine_.barrier();
}

void Group::exchange(std::span<const ConstBytes> out, std::span<const Bytes> in, const char* what) {
  std::vector<net::Outgoing> outgoing;
  std::vector<net::Incoming> incoming;
  const auto self = static_cast<std::size_t>(rank());
  for (std::size_t r = 0; r < out.size(); ++r) {
    if (r != self && !out[r].empty()) outgoing.push_back({Rank{static_cast<int>(r)}, out[r]});
  }
  for (std::size_t r = 0; r < in.size(); ++r) {
    if (r != self && !in[r].empty()) incoming.push_back({Rank{static_cast<int>(r)}, in[r], in[r].size()});
  }
  if (self < out.size() && self < in.size()) {
    if (out[self].size() != in[self].size())
      throw ConfigError(fmt::format("rank {} sends {} bytes to itself in {} and receives {}", rank(),
                                    out[self].size(), what, in[self].size()));
    if (out[self].data() != in[self].data()) std::ranges::copy(out[self], in[self].begin());
  }
  links_.collectives->transfer(outgoing, incoming, {what});
}

void Group::all_gather(ConstBytes mine, std::span<const Bytes> all) {
  const std::vector<ConstBytes> out(static_cast<std::size_t>(world()), mine);
  exchange(out, all, "all-gather");
}

void Group::gather(ConstBytes mine, std::span<const Bytes> all, int root) {
  std::vector<ConstBytes> out(static_cast<std::size_t>(world()));
  out[static_cast<std::size_t>(root)] = mine;
  exchange(out, rank() == root ? all : std::span<const Bytes>{}, "gather");
}

void Group::scatter(std::span<const ConstBytes> all, Bytes mine, int root) {
  std::vector<Bytes> in(static_cast<std::size_t>(world()));
  in[static_cast<std::size_t>(root)] = mine;
  exchange(rank() == root ? all : std::span<const ConstBytes>{}, in, "scatter");
}

void Group::cancel() {
  engine_.cancel();
  if (shared_) shared_->cancel();
}

}  // namespace tutti::torch_backend
