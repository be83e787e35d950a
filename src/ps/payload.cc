#include "ps/payload.h"

#include <memory>

#include "base/error.h"
#include "base/large_pages.h"

namespace tutti::ps {

std::span<const std::byte> Payloads::announce(Header& header, std::span<const float> gradients) const {
  const auto bytes = std::as_bytes(gradients);
  if (!in_place()) {
    header.bytes = bytes.size();
    return bytes;
  }
  const auto arena = memory_->arena(transport_.rank());
  header.memory_at = static_cast<std::uint64_t>(bytes.data() - arena.data());
  return {};
}

std::span<const float> Payloads::receive(Rank worker, const Header& header, std::size_t floats,
                                         std::vector<float>& arriving, const net::Activity& doing) const {
  if (!in_place()) {
    arriving.resize(floats);
    receive_payload(transport_, worker, header, std::as_writable_bytes(std::span(arriving)), doing);
    return arriving;
  }
  const auto arena = memory_->arena(worker);
  const std::uint64_t at = header.memory_at;
  // The place came in a message: any number may stand there, also one whose sum with the length overflows. So
  // what is left of the arena behind it is compared, not its end.
  if (header.bytes != 0 || at % alignof(float) != 0 || at > arena.size() ||
      (arena.size() - at) / sizeof(float) < floats) {
    throw ProtocolError(fmt::format("worker {}: no gradient of {} at {}", to_int(worker), header.piece, at));
  }
  return {reinterpret_cast<const float*>(arena.data() + at), floats};
}

std::vector<float> Payloads::room_for_arriving(std::size_t floats) const {
  return std::vector<float>(in_place() ? 0 : floats);
}

std::optional<Payloads::Held> Payloads::held_by(Rank server, std::size_t memory_at,
                                                std::size_t floats) const {
  if (!in_place()) return std::nullopt;
  const auto arena = memory_->arena(server);
  return Held{gate_at(arena, memory_at), values_behind(arena, memory_at, floats)};
}

std::span<std::byte> Payloads::room_to_hold(std::size_t bytes, std::vector<float>& own) const {
  if (in_place()) {
    const auto arena = memory_->arena(transport_.rank());
    if (bytes > arena.size()) {
      throw RunError(
          fmt::format("rank {}: {} bytes do not fit in {}", to_int(transport_.rank()), bytes, arena.size()));
    }
    return arena.first(bytes);
  }
  // A little more than is asked for: the allocator aligns for floats, and the first gate stands at the next
  // place that is aligned for gates.
  own = zeros_in_large_pages((bytes + alignof(Gate)) / sizeof(float));
  void* begin = own.data();
  std::size_t size = own.size() * sizeof(float);
  std::align(alignof(Gate), bytes, begin, size);
  return {static_cast<std::byte*>(begin), bytes};
}

}  // namespace tutti::ps
