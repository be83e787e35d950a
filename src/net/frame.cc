#include "net/frame.h"

namespace tutti::net {
std::span<const std::byte> FrameSeal::close(FrameHeader& header, std::span<const std::byte> payload) {
  header.tag = {};
  const auto readable = std::as_bytes(std::span(&header, 1));
  if (!encrypts_) {
    header.tag = gcm_.authenticate(frames_++, readable, payload);
    return payload;
  }
  if (encrypted_.size() < payload.size()) encrypted_.resize(payload.size());
  header.tag = gcm_.encrypt(frames_++, readable, payload, encrypted_.data());
  return std::span(encrypted_).first(payload.size());
}

bool FrameSeal::open(const FrameHeader& header, std::span<std::byte> payload) {
  FrameHeader sent = header;  // as it was when the tag was made
  sent.tag = {};
  const auto readable = std::as_bytes(std::span(&sent, 1));
  const std::uint64_t number = frames_++;
  return encrypts_ ? gcm_.decrypt(number, readable, payload, header.tag)
                   : gcm_.is_authentic(number, readable, payload, header.tag);
}

}  // namespace tutti::net
