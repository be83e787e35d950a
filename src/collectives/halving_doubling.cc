// Halving-doubling: as little traffic as a ring, in log2 N rounds instead of N.
//
// Recursive halving: partners half the world apart each keep one half of the buffer and combine the partner's
// copy of it; then the same within each half of the world, until each rank holds one finished block.
// Recursive doubling runs the film backwards: partners exchange what they hold, until all hold all. Blocks
// that rank 0 of 4 holds:
//
//     halving   0123 --with 2--> 01 --with 1--> 0        doubling   0 --with 1--> 01 --with 2--> 0123
//
// This needs a power of two. In other worlds the first ranks sit down in pairs, only the first of a pair
// takes a seat in the game, and plays for both. N = 6, extra = 2:
//
//     place   0 1   2 3   4   5
//     seat     0     1    2   3       fold in: 1 -> 0, 3 -> 2;  halving, doubling among 0 2 4 5;  fold out: 0
//     -> 1, 2 -> 3
//
// Seats are in the order of places, so where the blocks must be the ranks' own chunks (reduce_scatter,
// all_gather) the block of a seat is the chunks of its pair: one run, and no chunk has to move at the end.
// Otherwise blocks are equal.
//
// Broadcast scatters blocks down from the root and doubles; reduce halves and gathers blocks up to the root.
// For these places count from the root, so that it has seat 0.
#include <utility>

#include "collectives/algorithms.h"

namespace tutti::collectives {
namespace {

enum class Blocks { equal, chunks_of_ranks };

class Game {
 public:
  Game(const Task& t, int root, Blocks blocks)
      : task_(t), root_(root), blocks_(blocks), place_(wrap(t.rank - root, t.world)) {
    while (seats_ * 2 <= t.world) seats_ *= 2;
    extra_ = t.world - seats_;
    watching_ = place_ < 2 * extra_ && place_ % 2 == 1;
    seat_ = place_ < 2 * extra_ ? place_ / 2 : place_ - extra_;
  }

  // The watcher of each pair hands the player what `chunk_of` says of the watcher's place.
  template <class ChunkOf>
  void fold_in(Arrival arrival, ChunkOf chunk_of) {
    if (extra_ == 0) return;
    Round& round = schedule_.rounds.emplace_back();
    if (watching_) return send(round, rank_at(place_ - 1), chunk_of(place_));
    if (has_watcher()) receive(round, rank_at(place_ + 1), chunk_of(place_ + 1), arrival);
  }

  template <class ChunkOf>
  void fold_out(ChunkOf chunk_of) {
    if (extra_ == 0) return;
    Round& round = schedule_.rounds.emplace_back();
    if (watching_) return receive(round, rank_at(place_ - 1), chunk_of(place_), Arrival::replace);
    if (has_watcher()) send(round, rank_at(place_ + 1), chunk_of(place_ + 1));
  }

  void halve() {
    for (int apart = seats_ / 2; apart > 0; apart /= 2) {
      Round& round = schedule_.rounds.emplace_back();
      if (watching_) continue;
      send(round, rank_of_seat(seat_ ^ apart), run_of(seat_ ^ apart, apart));
      receive(round, rank_of_seat(seat_ ^ apart), run_of(seat_, apart), Arrival::combine);
    }
  }

  void double_up() {
    for (int apart = 1; apart < seats_; apart *= 2) {
      Round& round = schedule_.rounds.emplace_back();
      if (watching_) continue;
      send(round, rank_of_seat(seat_ ^ apart), run_of(seat_, apart));
      receive(round, rank_of_seat(seat_ ^ apart), run_of(seat_ ^ apart, apart), Arrival::replace);
    }
  }

  void scatter_from_seat_0() {
    for (int apart = seats_ / 2; apart > 0; apart /= 2) {
      Round& round = schedule_.rounds.emplace_back();
      if (watching_ || seat_ % apart != 0) continue;
      const int peer = seat_ ^ apart;
      if (seat_ < peer) {
        send(round, rank_of_seat(peer), run_of(peer, apart));
      } else {
        receive(round, rank_of_seat(peer), run_of(seat_, apart), Arrival::replace);
      }
    }
  }

  void gather_to_seat_0() {
    for (int apart = 1; apart < seats_; apart *= 2) {
      Round& round = schedule_.rounds.emplace_back();
      if (watching_ || seat_ % apart != 0) continue;
      const int peer = seat_ ^ apart;
      if (seat_ < peer) {
        receive(round, rank_of_seat(peer), run_of(peer, apart), Arrival::replace);
      } else {
        send(round, rank_of_seat(peer), run_of(seat_, apart));
      }
    }
  }

  Schedule take() { return std::move(schedule_); }

 private:
  bool has_watcher() const { return !watching_ && place_ < 2 * extra_; }
  int rank_at(int place) const { return wrap(place + root_, task_.world); }
  // Also the first place that does not belong to the seats before.
  int place_of_seat(int seat) const { return seat < extra_ ? 2 * seat : seat + extra_; }
  int rank_of_seat(int seat) const { return rank_at(place_of_seat(seat)); }

  // The blocks of the aligned run of `length` seats that holds `seat`.
  Chunk run_of(int seat, int length) const {
    const int first = seat - seat % length;
    if (blocks_ == Blocks::equal) return chunk_range(task_.count, seats_, first, first + length);
    return chunk_range(task_.count, task_.world, place_of_seat(first), place_of_seat(first + length));
  }

  Task task_;
  int root_;
  Blocks blocks_;
  int place_;      // rank, counted from the root
  int seats_ = 1;  // the largest power of two that fits the world
  int extra_ = 0;  // how many do not get a seat
  bool watching_;  // the second of a pair
  int seat_;       // a watcher's is that of its player
  Schedule schedule_;
};

Schedule halving_doubling_schedule(const Task& t) {
  const auto everything = [&](int) { return Chunk{0, t.count}; };
  const auto own_chunk = [&](int place) { return equal_chunk(t.count, t.world, place); };
  const bool rooted = t.operation == Operation::broadcast || t.operation == Operation::reduce;
  const bool by_rank = t.operation == Operation::reduce_scatter || t.operation == Operation::all_gather;
  Game game(t, rooted ? t.root : 0, by_rank ? Blocks::chunks_of_ranks : Blocks::equal);
  switch (t.operation) {
    case Operation::all_reduce:
    case Operation::barrier:
      game.fold_in(Arrival::combine, everything);
      game.halve();
      game.double_up();
      game.fold_out(everything);
      break;
    case Operation::reduce_scatter:
      game.fold_in(Arrival::combine, everything);
      game.halve();
      game.fold_out(own_chunk);
      break;
    case Operation::all_gather:
      game.fold_in(Arrival::replace, own_chunk);
      game.double_up();
      game.fold_out(everything);
      break;
    case Operation::broadcast:
      game.scatter_from_seat_0();
      game.double_up();
      game.fold_out(everything);
      break;
    case Operation::reduce:
      game.fold_in(Arrival::combine, everything);
      game.halve();
      game.gather_to_seat_0();
      break;
  }
  return game.take();
}

}  // namespace

AlgorithmInfo halving_doubling() {
  return {
      .name = "halving-doubling", .summary = "log2 N rounds each way", .schedule = halving_doubling_schedule};
}

}  // namespace tutti::collectives
