// What every rank of a job shows of itself, apart from its work: that it lives, how far it has come and what
// it is doing. It lies in memory that all ranks and their launcher map, so a look costs no message, and a
// rank that is killed leaves its last words there.
//
//   | header: requests, decisions | rank 0 | rank 1 | ... |
//
// Three questions are answered by it:
//   - Is a rank alive?   `beats` rises four times a second, by a thread that does nothing else
//   (net/heartbeat.h).
//   - Does it get on?    `progress` rises with everything that the rank gets done: a message, a batch, a
//   gradient. A rank that waits for others makes none, and shows that it waits (net/stall.h).
//   - What do they all do next?   The launcher asks for a stop or a checkpoint; rank 0 (or the lowest rank
//   that is
//     left) says after which step. It says so before it begins that step. No rank can end a synchronous step
//     that rank 0 has not begun, so everyone finds the word there in time and ends after the same step,
//     without a message.
//
// Like the job's shared memory (net/segment.h) it is an anonymous file: nothing stays behind.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/file.h"
#include "base/rank.h"

namespace tutti::net {

// What the workers may be asked for while they train: to save and stop, to save and go on, or to end because
// enough has been learned.
enum class Request { stop, save, end };

// What a rank shows at a glance.
struct Vitals {
  std::uint64_t beats = 0;     // 0 until its first
  std::uint64_t progress = 0;  // rises with everything that it gets done
  bool waiting = false;        // for others
  bool signed_off = false;     // its work is done: no more beats follow
  bool operator==(const Vitals&) const = default;
};

class StatusBoard;

// What was asked of the job and decided. Thread-safe, across processes. The board outlives it.
class JobRequests {
 public:
  // The launcher asks; how often it has is the answer.
  void ask(Request request) const;
  std::uint32_t asked(Request request) const;
  // After which step the request is met; nothing until somebody has decided.
  void decide(Request request, std::int64_t after_step) const;
  std::optional<std::int64_t> decided(Request request) const;
  // Workers have done what was asked; never said where a run came to its end before.
  void set_met(Request request) const;
  bool met(Request request) const;

  // Of a job on several hosts, each of which has a board: whoever decides must not begin the step before the
  // word is on all of them. await_known() blocks until it is, at once on one host; throws Timeout, from
  // `self` about itself, if it takes longer than `timeout`. Agents (launch/agent.h) carry the word and then
  // say here that it is known.
  void make_known(Request request, std::int64_t after_step) const;
  void await_known(Rank self, Request request, Clock::duration timeout) const;

 private:
  friend StatusBoard;
  explicit JobRequests(const StatusBoard& board) : board_(board) {}
  const StatusBoard& board_;
};

// What a rank of another host shows there, to be shown here, too. Counts of barriers are left out: who
// survives is settled on one host.
struct Shown {
  Vitals vitals;
  bool left = false;
  std::int64_t part_written = -1;
  std::int64_t part_failed = -1;
  std::string doing;
  bool operator==(const Shown&) const = default;
};

// For those that carry what ranks show from one host's board to another's. Thread-safe, across processes. The
// board outlives it.
class BoardMirror {
 public:
  Shown shown(Rank rank) const;
  void show(Rank rank, const Shown& shown) const;
  // This board is one of several: a decision is not known everywhere as soon as it stands here.
  void span_hosts() const;
  // Likewise, and nobody carries anything from one to the other: what stands here is this host's alone.
  void show_one_host() const;
  bool shows_one_host() const;

 private:
  friend StatusBoard;
  explicit BoardMirror(const StatusBoard& board) : board_(board) {}
  const StatusBoard& board_;
};

// Workers whose state differs each write a part of a checkpoint (checkpoint/checkpoint.h), in the order of
// steps; who puts the parts together looks here whether they are there. Thread-safe, across processes. The
// board outlives it.
class CheckpointParts {
 public:
  enum class State { missing, written, failed };
  void report(Rank self, std::int64_t step, bool written) const;
  State of(Rank rank, std::int64_t step) const;

 private:
  friend StatusBoard;
  explicit CheckpointParts(const StatusBoard& board) : board_(board) {}
  const StatusBoard& board_;
};

// Thread-safe, across processes; say() is for one thread of a rank at a time.
class StatusBoard {
 public:
  // A fresh one for `ranks` ranks. Throws RunError.
  static StatusBoard create(int ranks);
  // The one behind an inherited descriptor. Throws RunError if it is none.
  static StatusBoard open(UniqueFd fd);

  int fd() const { return fd_.get(); }
  int ranks() const;

  // A rank about itself. Text is cut after kLongestText bytes.
  static constexpr std::size_t kLongestText = 111;
  void beat(Rank self) const;
  void advance(Rank self) const;
  void say(Rank self, std::string_view doing) const;
  // A thread of the rank begins, or ends, to wait for others.
  void begin_wait(Rank self) const;
  void end_wait(Rank self) const;
  // No more beats follow, and that is well.
  void sign_off(Rank self) const;
  // The rank takes part in nothing any more.
  void leave(Rank self) const;

  // About others.
  Vitals vitals(Rank rank) const;
  std::string doing(Rank rank) const;
  std::uint64_t progress_of_all() const;

  // A rank that died while the job goes on without it. The launcher says so, once and for good.
  void drop(Rank rank) const;
  bool dropped(Rank rank) const;

  JobRequests requests() const { return JobRequests(*this); }
  BoardMirror mirror() const { return BoardMirror(*this); }
  CheckpointParts checkpoint_parts() const { return CheckpointParts(*this); }

  // A barrier that the dead do not hold up: returns when every rank below `workers` that is not dropped has
  // come to the barrier of this number, which rises. The result is who takes part: the same ranks for
  // everyone. Blocks while anybody makes progress, and `timeout` longer; then throws Timeout that names who
  // has not come. One that has left without coming is PeerLost.
  std::vector<Rank> barrier_of_survivors(Rank self, int workers, std::uint32_t number,
                                         Clock::duration timeout, std::string_view what) const;

 private:
  friend JobRequests;
  friend BoardMirror;
  friend CheckpointParts;
  struct Header;
  struct Entry;
  StatusBoard(UniqueFd fd, std::size_t bytes);
  Header& header() const;
  Entry& entry(Rank rank) const;
  void write_text(Rank rank, std::string_view text) const;
  std::optional<std::vector<Rank>> participants(Rank self, int workers, std::uint32_t number) const;

  UniqueFd fd_;
  Mapping mapping_;
};

// All that were dropped.
std::vector<Rank> dropped(const StatusBoard& board);
// The lowest rank below `workers` that is left.
Rank first_left(const StatusBoard& board, int workers);

}  // namespace tutti::net
