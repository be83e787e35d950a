#include "ps/message.h"

#include "base/error.h"

namespace tutti::ps {

void send(net::Transport& transport, Rank to, const Header& header, std::span<const std::byte> payload,
          const net::Activity& doing) {
  TUTTI_CHECK(header.bytes == payload.size(), "{} bytes announced, {} given", header.bytes, payload.size());
  net::send(transport, to, std::as_bytes(std::span(&header, 1)), doing);
  if (!payload.empty()) net::send(transport, to, payload, doing);
}

Header receive_header(net::Transport& transport, Rank from, const net::Activity& doing) {
  Header header;
  net::receive(transport, from, std::as_writable_bytes(std::span(&header, 1)), doing);
  if (header.magic != Header::kMagic) {
    throw ProtocolError(fmt::format("rank {}: what rank {} sent in {} is no message of a parameter server",
                                    to_int(transport.in_job(transport.rank())),
                                    to_int(transport.in_job(from)), doing.text()));
  }
  return header;
}

void receive_payload(net::Transport& transport, Rank from, const Header& header, std::span<std::byte> into,
                     const net::Activity& doing) {
  if (header.bytes != into.size()) {
    throw ProtocolError(fmt::format("rank {}: rank {} announced {} bytes in {}, expected {}",
                                    to_int(transport.in_job(transport.rank())),
                                    to_int(transport.in_job(from)), header.bytes, doing.text(), into.size()));
  }
  if (!into.empty()) net::receive(transport, from, into, doing);
}

std::string receive_text(net::Transport& transport, Rank from, const Header& header,
                         const net::Activity& doing) {
  if (header.bytes > kLongestText) {
    throw ProtocolError(fmt::format("rank {}: rank {} announced a text of {} bytes in {}",
                                    to_int(transport.in_job(transport.rank())),
                                    to_int(transport.in_job(from)), header.bytes, doing.text()));
  }
  std::string text(header.bytes, '\0');
  receive_payload(transport, from, header, std::as_writable_bytes(std::span(text)), doing);
  return text;
}

}  // namespace tutti::ps
