#include "joining/channel.h"

#include <span>
#include <vector>

#include "base/error.h"

namespace tutti::joining {
namespace {

constexpr std::string_view kMeeting = "the meeting";

// A job's description has all its settings in it; one for each of many ranks is longer.
constexpr std::uint64_t kLongestText = 256 << 20;

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

Channel::Channel(net::Connection connection, Rank self, Rank peer)
    : connection_(std::move(connection)),
      self_(self),
      peer_(peer),
      sending_(connection_.keys.sending),
      receiving_(connection_.keys.receiving) {}

void Channel::send(const std::string& text, Deadline deadline) {
  std::uint64_t length = text.size();
  std::vector<std::byte> hidden(text.size());
  auto tag = sending_.encrypt(sent_++, {}, std::as_bytes(std::span(text)), hidden.data());
  for (const std::span<const std::byte> part :
       {std::span<const std::byte>(bytes_of(length)), std::span<const std::byte>(hidden),
        std::span<const std::byte>(tag)}) {
    net::write_exactly(fd(), part, self_, peer_, kMeeting, deadline);
  }
}

std::string Channel::receive(Deadline deadline) {
  const auto read = [&](std::span<std::byte> into) {
    net::read_exactly(fd(), into, self_, peer_, kMeeting, deadline);
  };
  std::uint64_t length = 0;
  read(bytes_of(length));
  AesGcm::Tag tag;
  std::string text;
  // A length that was altered shows in the tag; until then it only must not take all memory.
  bool authentic = length <= kLongestText;
  if (authentic) {
    text.resize(length);
    const auto bytes = std::as_writable_bytes(std::span(text));
    read(bytes);
    read(tag);
    authentic = receiving_.decrypt(received_++, {}, bytes, tag);
  }
  if (!authentic)
    throw ProtocolError(fmt::format("rank {}: what rank {} said in the meeting was altered on its way",
                                    to_int(self_), to_int(peer_)));
  return text;
}

}  // namespace tutti::joining
