// Each stream of net/stream_transport.h is cut into pieces, and a piece is a message of MPI's. Every call is
// one that does not block: MPI has no deadlines, so waiting is left to the caller, which has.
//
// Pieces are copied at both ends. MPI goes on with a send or a receive that we have given up, and nobody can
// tell it not to; so it never works on memory of the caller's, who may have freed it.
#include "mpi/transport.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "mpi/call.h"
#include "net/stream_transport.h"

namespace tutti::mpi {
namespace {

// Few enough bytes that what was copied is still in a core's cache when MPI reads it.
constexpr std::size_t kPiece = 256 << 10;

// The end of a stream is a message of no bytes.
constexpr int kEnd = 0;

// Memory of one piece, and what MPI does with it.
class Slot {
 public:
  Slot() = default;
  // MPI may still be at it where a run has failed: the memory is left to it.
  ~Slot() {
    if (request_ != MPI_REQUEST_NULL) static_cast<void>(memory_.release());
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  std::byte* memory() {
    if (!memory_) memory_ = std::make_unique_for_overwrite<std::byte[]>(kPiece);
    return memory_.get();
  }
  MPI_Request* request() { return &request_; }

  // Whether MPI has nothing to do with it any more.
  bool done() {
    if (request_ == MPI_REQUEST_NULL) return true;
    int yes = 0;
    call(MPI_Test(&request_, &yes, MPI_STATUS_IGNORE), "MPI_Test");
    return yes != 0;
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// One is filled, or emptied, while MPI carries the other.
using Slots = std::array<Slot, 2>;

struct Sending {
  Slots slots;
  std::size_t next = 0;
  std::size_t last_piece = 0;  // bytes of a frame's last piece, until it has left
};

struct Receiving {
  Slots slots;
  std::array<std::size_t, 2> lengths{};
  std::size_t oldest = 0;
  std::size_t in_use = 0;
  std::size_t taken = 0;  // of the oldest
  std::atomic<bool> ended{false};
};

class MpiTransport final : public net::StreamTransport {
 public:
  MpiTransport(Rank rank, MPI_Comm comm, std::vector<int> process_of, const net::TransportOptions& options)
      : StreamTransport(rank, static_cast<int>(process_of.size()), options),
        comm_(comm),
        process_of_(std::move(process_of)),
        sending_(process_of_.size()),
        receiving_(process_of_.size()) {}

  ~MpiTransport() override {
    for (int peer = 0; peer < world(); ++peer) {
      if (Rank{peer} == rank()) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      const int sent = MPI_Isend(nullptr, kEnd, MPI_BYTE, process_of(Rank{peer}), tag(rank(), Rank{peer}),
                                 comm_, &request);
      if (sent == MPI_SUCCESS) MPI_Request_free(&request);  // nobody waits for it
    }
  }

  net::PeerMemory* peer_memory() override { return nullptr; }

 private:
  // A frame's last piece counts as put when MPI has done with all of them: the caller computes next, and MPI
  // carries nothing while nobody calls it.
  std::size_t put(Rank to, const Parts& parts) override {
    Sending& s = sending_[index(to)];
    if (s.last_piece == 0) {
      Slot& slot = s.slots[s.next];
      if (!slot.done()) return 0;
      const std::size_t n = copy(parts, slot.memory());
      call(MPI_Isend(slot.memory(), static_cast<int>(n), MPI_BYTE, process_of(to), tag(rank(), to), comm_,
                     slot.request()),
           "MPI_Isend");
      s.next = 1 - s.next;
      const std::size_t whole =
          std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                          [](std::size_t sum, const auto& p) { return sum + p.size(); });
      if (n < whole) return n;
      s.last_piece = n;
    }
    return all_left(s) ? std::exchange(s.last_piece, 0) : 0;
  }

  static bool all_left(Sending& s) { return std::ranges::all_of(s.slots, &Slot::done); }

  // As much of the parts as a piece holds.
  static std::size_t copy(const Parts& parts, std::byte* into) {
    std::size_t n = 0;
    for (const auto& part : parts) {
      const auto some = part.first(std::min(part.size(), kPiece - n));
      std::ranges::copy(some, into + n);
      n += some.size();
    }
    return n;
  }

  std::size_t take(Rank from, std::span<std::byte> into) override {
    Receiving& r = receiving_[index(from)];
    if (into.empty() || !piece_is_here(from)) return 0;
    const std::size_t length = r.lengths[r.oldest];
    const std::size_t n = std::min(into.size(), length - r.taken);
    std::memcpy(into.data(), r.slots[r.oldest].memory() + r.taken, n);
    r.taken += n;
    if (r.taken == length) {
      r.taken = 0;
      r.oldest = 1 - r.oldest;
      --r.in_use;
    }
    return n;
  }

  bool readable(Rank from) override {
    begin_receives(from);
    return receiving_[index(from)].in_use > 0;
  }

  bool piece_is_here(Rank from) {
    begin_receives(from);
    Receiving& r = receiving_[index(from)];
    return r.in_use > 0 && r.slots[r.oldest].done();
  }

  // Of what has begun to arrive, as far as there is memory for it.
  void begin_receives(Rank from) {
    Receiving& r = receiving_[index(from)];
    while (r.in_use < r.slots.size() && !r.ended) {
      int here = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status;
      call(MPI_Improbe(process_of(from), tag(from, rank()), comm_, &here, &message, &status), "MPI_Improbe");
      if (here == 0) return;
      int length = 0;
      call(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count");
      TUTTI_CHECK(length >= 0 && static_cast<std::size_t>(length) <= kPiece, "a piece of {} bytes", length);
      if (length == kEnd) {
        call(MPI_Mrecv(nullptr, kEnd, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
        r.ended = true;
        return;
      }
      const std::size_t at = (r.oldest + r.in_use) % r.slots.size();
      call(MPI_Imrecv(r.slots[at].memory(), length, MPI_BYTE, &message, r.slots[at].request()), "MPI_Imrecv");
      r.lengths[at] = static_cast<std::size_t>(length);
      ++r.in_use;
    }
  }

  // MPI has no sleep that ends when something comes.
  void wait(const Interest& interest, Clock::duration at_most) override {
    const auto until = Clock::now() + at_most;
    const auto comes = [this](Rank r) { return piece_is_here(r) || receiving_[index(r)].ended; };
    const auto leaves = [this](Rank r) {
      Sending& s = sending_[index(r)];
      return s.last_piece > 0 ? all_left(s) : s.slots[s.next].done();
    };
    constexpr std::chrono::microseconds kShortest{5};
    constexpr std::chrono::microseconds kLongest{200};
    for (auto pause = kShortest; !cancelled() && Clock::now() < until;
         pause = std::min(2 * pause, kLongest)) {
      if (std::ranges::any_of(interest.to_read, comes) || std::ranges::any_of(interest.to_write, leaves))
        return;
      std::this_thread::sleep_for(pause);
    }
  }

  // A peer that was killed is mpirun's to notice; it ends the job.
  std::optional<Rank> lost_peer(const Interest& interest) override {
    // What a peer sent before it left still counts.
    const auto has_ended = [this](Rank r) {
      return receiving_[index(r)].ended && receiving_[index(r)].in_use == 0;
    };
    // Of this host; one of another shows by the time-out. It may have left with all that it was sent.
    const auto has_left = [this](Rank r) {
      return board().mirror().shown(in_job(r)).left && !all_left(sending_[index(r)]);
    };
    if (const auto r = std::ranges::find_if(interest.to_read, has_ended); r != interest.to_read.end())
      return *r;
    if (const auto r = std::ranges::find_if(interest.to_write, has_left); r != interest.to_write.end())
      return *r;
    return std::nullopt;
  }

  static std::size_t index(Rank r) { return static_cast<std::size_t>(to_int(r)); }
  int process_of(Rank r) const { return process_of_[index(r)]; }

  // Of a stream. A process has one rank, or a worker's and that of the server which lives with it.
  int tag(Rank from, Rank to) const {
    const auto second = [this](Rank r) { return process_of(r) == to_int(r) ? 0 : 1; };
    return 2 * second(from) + second(to);
  }

  MPI_Comm comm_;
  const std::vector<int> process_of_;  // by rank
  std::vector<Sending> sending_;       // by peer
  std::vector<Receiving> receiving_;   // likewise
};

}  // namespace

rendezvous::Connector make_connector(const std::vector<int>& process_of) {
  // A job's messages meet no others'. MPI_Finalize frees it: before, a message may still be on its way.
  MPI_Comm comm = MPI_COMM_NULL;
  call(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return [comm, process_of](Rank rank, const net::TransportOptions& options) {
    return std::make_unique<MpiTransport>(rank, comm, process_of, options);
  };
}

}  // namespace tutti::mpi
