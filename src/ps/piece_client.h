// A worker's side of the parameters that lie in buckets.
//
//   PieceClient pieces(connection, buckets);
//   pieces.start(step, state);       // the first worker: its weights become the servers'
//   pieces.pull();                   // then the others: the servers' weights become their own
//   ... pieces.push(bucket, lr);     // as backward fills it; never blocks on a peer
//   ... pieces.wait(bucket);         // until all of it has come back
//
// A bucket travels in pieces (ps/layout.h), which are answered one by one while backward still computes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ps/connection.h"
#include "ps/payload.h"

namespace tutti::ps {

// All spans live as long as the client. In shared memory `gradients` lie in the worker's arena.
struct ClientBucket {
  std::span<float> parameters;  // what start() brings to the servers
  std::span<float>
      gradients;  // what push() brings; cleared when they have been used, unless the answer lands there
  std::span<float> landing;  // where what the servers answer goes: either of the two
  std::vector<std::span<float>> earlier =
      {};  // sums of shards that are pushed before the gradients, in order
};

// One thread at a time calls it.
class PieceClient final : private AnswerHandler {
 public:
  // Buckets are those of the connection's contents. The connection outlives it.
  PieceClient(Connection& connection, std::vector<ClientBucket> buckets);
  ~PieceClient() override;
  PieceClient(const PieceClient&) = delete;
  PieceClient& operator=(const PieceClient&) = delete;

  // These three block, and are called while nothing is under way. Throw PeerLost, Timeout, ProtocolError.
  // The parameters, and `state`, become the servers', as `version`. On return they have it all. Not where
  // servers only average.
  void start(std::int64_t version, const std::vector<StateSlot>& state);
  void pull();
  // The servers' optimizer state.
  void fetch_state(const std::vector<StateSlot>& state);

  // The bucket's gradients may leave. All workers push buckets in the same order. A void push (ps/message.h)
  // leaves them here; they are cleared all the same.
  void push(std::size_t bucket, double lr, Reply reply = Reply::parameters,
            PushKind kind = PushKind::gradient);
  // Until all pieces of the bucket have come back. Throws what the connection's threads met: PeerLost,
  // Timeout, ProtocolError.
  void wait(std::size_t bucket);

  // The lowest version among the pieces: updates that all of them have seen. Without pieces the highest
  // number there is.
  std::int64_t version() const;

 private:
  struct Track {  // of a piece
    Piece where;  // never changes
    std::int64_t version = 0;
    bool away = false;
    bool sent = false;  // all of it has left; the answer may overtake the news of that
  };

  bool handles(const Header& answer) const override;
  bool on_answer(const Header& answer, Rank from, const net::Activity& doing) override;
  std::optional<Rank> awaited() const override;
  bool may_send() const override { return under_way_ < most_under_way_; }

  Rank server_of(const Piece& piece) const { return connection_.rank_of(piece.server); }
  void send_piece(std::size_t id, double lr, Reply reply, PushKind kind);
  void send_push(const Piece& piece, Header header, std::span<const float> numbers, PushKind kind);
  void land(const Header& answer, Rank from, const net::Activity& doing);
  void clear_gradients(const Piece& piece) const;

  Connection& connection_;
  Requests& requests_;
  net::Transport& transport_;
  const Payloads payloads_;
  const std::vector<ClientBucket> buckets_;
  const bool nontemporal_;  // how buckets are written
  const std::size_t most_under_way_;
  const Order order_;  // of the pieces of each bucket

  // Guarded by the requests' lock.
  std::vector<Track> pieces_;
  std::vector<std::size_t> lacking_;  // by bucket: pieces that have not come back
  std::size_t under_way_ = 0;         // pieces that have been sent and not been answered
};

}  // namespace tutti::ps
