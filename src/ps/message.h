// What workers and servers say to each other.
//
// Every message is a header of fixed size, followed by a payload of `bytes` bytes where it says so. Where
// ranks share memory, gradients and parameters are not sent: the header says where they lie, and the other
// side reads them there. Nor are rows. Which rows is told by their places (ps/table.h).
//
// A push may bring several sums of shards (ServerOptions::shards), a message each, in the order of the
// shards; all but the last say that more follow (kMore), and the last one is the push that counts.
//
// A push may be *void* (kVoid): the worker has made its step, but the gradient cannot be used. It brings no
// gradient and no rows. It counts like any other, so the version rises and answers go out, and nothing is
// applied for it: an update is made from the gradients that are not void, and where all are, there is none.
//
//   worker                                server
//   hello  + description           ->     compares it with its own
//                                  <-     welcome
//   start  piece, slot, values     ->     (the first worker only)
//   push   piece, gradient         ->
//                                  <-     piece, version, parameters    (when the rules allow)
//   pull   piece                   ->
//                                  <-     piece, version, parameters    (at once)
//   push_rows  partition, rows, gradients ->
//                                  <-     counted, partition, version   (when the rules allow)
//   pull_rows   partition, rows    ->
//                                  <-     rows, values                  (at once)
//   state, state_rows  piece, slot ->
//                                  <-     state, values
//   leave                          ->     (no more pushes)
//   bye                            ->
//                                  <-     bye + report
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "net/transport.h"

namespace tutti::ps {

enum class Verb : std::uint32_t {
  hello = 1,
  welcome,
  start,
  push,
  piece,
  pull,
  state,
  leave,
  bye,
  start_rows,
  push_rows,
  counted,
  pull_rows,
  rows,
  state_rows
};

struct Header {
  std::uint32_t magic = kMagic;
  Verb verb{};
  std::uint32_t piece = 0;  // or partition of a table
  std::uint32_t slot = 0;   // start, state: 0 parameters, 1.. the optimizer's; push: how it is answered;
                            // push_rows, pull_rows, rows: how many; bye: 1 if the worker comes back
  std::uint32_t incarnation = 0;
  std::uint32_t flags = 0;  // push, push_rows: kVoid, kMore
  std::uint64_t sequence = 0;
  std::int64_t version = 0;
  double lr = 0;
  std::uint64_t memory_at = 0;  // of a gradient in shared memory: its place in the worker's arena
  std::uint64_t bytes = 0;      // of the payload that follows
  static constexpr std::uint32_t kMagic = 0x31535054;  // "TPS1"
  static constexpr std::uint32_t kVoid = 1;
  static constexpr std::uint32_t kMore = 2;

  bool is_void() const { return (flags & kVoid) != 0; }
  bool has_more() const { return (flags & kMore) != 0; }
};
static_assert(sizeof(Header) == 64);

// What a push is answered with: the piece, or word that it was counted.
enum class Reply : std::uint32_t { parameters = 0, acknowledgement = 1 };

// What a push brings.
enum class PushKind { gradient, nothing };

void send(net::Transport& transport, Rank to, const Header& header, std::span<const std::byte> payload,
          const net::Activity& doing);
// Throws ProtocolError if it is no header.
Header receive_header(net::Transport& transport, Rank from, const net::Activity& doing);
// Throws ProtocolError unless the header announces exactly `into`.
void receive_payload(net::Transport& transport, Rank from, const Header& header, std::span<std::byte> into,
                     const net::Activity& doing);
// A text of at most kLongestText bytes.
std::string receive_text(net::Transport& transport, Rank from, const Header& header,
                         const net::Activity& doing);
inline constexpr std::size_t kLongestText = 16 << 20;

}  // namespace tutti::ps
