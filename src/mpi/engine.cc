// The engine "mpi": the collectives of the MPI that is linked.
//
// MPI's non-blocking collectives could be given up until their end, but Open MPI 4.1's all-reduce takes 1.4
// to 3 times as long that way (two ranks of one host, 1 KiB to 32 MiB). So the calls are MPI's blocking ones,
// and where they would wait in vain:
//   - a long call first meets in a non-blocking barrier, half a microsecond, which ends with an exception
//     when a peer does not come, or when it is cancelled;
//   - a short call, which that would cost as much again, and every call from there on, is looked after by a
//     watchdog (mpi/watchdog.h), which ends the process with the same words.
#include <algorithm>
#include <array>
#include <climits>
#include <functional>
#include <vector>

#include "collectives/foreign.h"
#include "mpi/call.h"
#include "mpi/mpi.h"
#include "mpi/watchdog.h"

namespace tutti::mpi {
namespace {

using collectives::Buffer;
using collectives::Chunk;
using collectives::ForeignEngine;
using collectives::Operation;
using collectives::ReduceOp;

constexpr std::array kTypes = {DType::f32, DType::f64, DType::i32, DType::i64, DType::bf16, DType::f16};
constexpr std::array kOps = {ReduceOp::sum, ReduceOp::min, ReduceOp::max};

// MPI passes no state to an operator, so each is a function of its own.
template <DType type, ReduceOp op>
// NOLINTNEXTLINE(readability-non-const-parameter): as MPI calls it
void combine_elements(void* from, void* into, int* count, MPI_Datatype*) {
  collectives::combine(type, op, into, from, static_cast<std::size_t>(*count));
}

template <DType type>
MPI_User_function* function_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return combine_elements<type, ReduceOp::min>;
    case ReduceOp::max:
      return combine_elements<type, ReduceOp::max>;
    default:
      return combine_elements<type, ReduceOp::sum>;
  }
}

MPI_User_function* function_of(DType type, ReduceOp op) {
  switch (type) {
    case DType::f32:
      return function_of<DType::f32>(op);
    case DType::f64:
      return function_of<DType::f64>(op);
    case DType::i32:
      return function_of<DType::i32>(op);
    case DType::i64:
      return function_of<DType::i64>(op);
    case DType::bf16:
      return function_of<DType::bf16>(op);
    case DType::f16:
      return function_of<DType::f16>(op);
  }
  return nullptr;
}

// Types and operators as MPI knows them. Sums of what MPI has are MPI's own, which may be quicker than ours.
// The rest is ours: MPI knows no half-precision, and says nothing of the minimum or maximum of a NaN.
class Operators {
 public:
  Operators() {
    call(MPI_Type_contiguous(2, MPI_BYTE, &half_), "MPI_Type_contiguous");
    call(MPI_Type_commit(&half_), "MPI_Type_commit");
    for (const DType type : kTypes) {
      for (const ReduceOp op : kOps) {
        call(MPI_Op_create(function_of(type, op), /*commute=*/1, &made(type, op)), "MPI_Op_create");
      }
    }
  }
  ~Operators() {
    for (const DType type : kTypes) {
      for (const ReduceOp op : kOps) MPI_Op_free(&made(type, op));
    }
    MPI_Type_free(&half_);
  }
  Operators(const Operators&) = delete;
  Operators& operator=(const Operators&) = delete;

  MPI_Datatype type(DType type) const {
    switch (type) {
      case DType::f32:
        return MPI_FLOAT;
      case DType::f64:
        return MPI_DOUBLE;
      case DType::i32:
        return MPI_INT32_T;
      case DType::i64:
        return MPI_INT64_T;
      case DType::bf16:
      case DType::f16:
        return half_;
    }
    return MPI_DATATYPE_NULL;
  }

  MPI_Op op(DType type, ReduceOp op) {
    const bool half = type == DType::bf16 || type == DType::f16;
    return op == ReduceOp::sum && !half ? MPI_SUM : made(type, op);
  }

 private:
  MPI_Op& made(DType type, ReduceOp op) {
    return ops_[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)];
  }

  MPI_Datatype half_ = MPI_DATATYPE_NULL;
  std::array<std::array<MPI_Op, 4>, kTypes.size()> ops_{};
};

// Up to here a barrier before the call would cost more than a twentieth of it.
constexpr std::size_t kShort = 16 << 10;

// The counts that MPI takes are ints.
int as_count(std::size_t count) {
  if (count > INT_MAX)
    throw RunError(fmt::format("MPI moves at most {} elements at a time, not {}", INT_MAX, count));
  return static_cast<int>(count);
}

class MpiEngine final : public ForeignEngine {
 public:
  MpiEngine(net::Transport& transport, Clock::duration timeout)
      : ForeignEngine(transport, timeout),
        watchdog_([this](const Watchdog::Over& over, const net::Activity& doing) { watch(over, doing); }) {
    const Watchdog::Call watched(watchdog_, {"connecting MPI"});
    MPI_Group everyone = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    call(MPI_Comm_group(MPI_COMM_WORLD, &everyone), "MPI_Comm_group");
    int range[1][3] = {{0, world() - 1, 1}};
    call(MPI_Group_range_incl(everyone, 1, range, &members), "MPI_Group_range_incl");
    call(MPI_Comm_create_group(MPI_COMM_WORLD, members, /*tag=*/0, &comm_), "MPI_Comm_create_group");
    MPI_Group_free(&members);
    MPI_Group_free(&everyone);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    int mine = -1;
    call(MPI_Comm_rank(comm_, &mine), "MPI_Comm_rank");
    TUTTI_CHECK(mine == to_int(rank()), "rank {} is MPI's rank {}", to_int(rank()), mine);
    lengths_.resize(static_cast<std::size_t>(world()));
    begins_.resize(lengths_.size());
  }
  ~MpiEngine() override {
    if (!failed()) MPI_Comm_free(&comm_);
  }

  collectives::Method method(Operation, std::uint64_t) const override {
    return {"its own", fmt::format("{} chooses", library())};
  }

 private:
  // Whether all have come, asked several times: a look at the clock costs about as much as a question.
  static bool all_are_here(MPI_Request& barrier) {
    constexpr int kQuestions = 64;
    for (int i = 0; i < kQuestions; ++i) {
      int here = 0;
      call(MPI_Test(&barrier, &here, MPI_STATUS_IGNORE), "MPI_Test");
      if (here != 0) return true;
    }
    return false;
  }

  // Done when all have come and the call is through.
  class Met final : public Work {
   public:
    Met(MPI_Request barrier, std::function<void()> then) : barrier_(barrier), then_(std::move(then)) {}

    bool wait(Clock::duration at_most) override {
      const auto until = Clock::now() + at_most;
      do {
        if (!all_are_here(barrier_)) continue;
        then_();
        return true;
      } while (Clock::now() < until);
      return false;
    }

   private:
    MPI_Request barrier_;
    std::function<void()> then_;
  };

  std::unique_ptr<Work> start(const Request& request, const net::Activity& doing) override {
    if (request.operation != Operation::barrier && request.buffer.bytes() <= kShort) {
      carry_out(request, doing);
      return nullptr;
    }
    MPI_Request barrier = MPI_REQUEST_NULL;
    call(MPI_Ibarrier(comm_, &barrier), "MPI_Ibarrier");
    if (all_are_here(barrier)) {  // as a rule, and then without a detour over the heap
      carry_out(request, doing);
      return nullptr;
    }
    return std::make_unique<Met>(barrier, [this, request, doing] { carry_out(request, doing); });
  }

  void carry_out(const Request& request, const net::Activity& doing) {
    if (request.operation == Operation::barrier) return;
    const Watchdog::Call watched(watchdog_, doing);
    const auto& [operation, buffer, op, root] = request;
    void* data = buffer.data;
    const int count = as_count(buffer.count);
    const MPI_Datatype type = operators_.type(buffer.type);
    switch (operation) {
      case Operation::all_reduce:
        return call(MPI_Allreduce(MPI_IN_PLACE, data, count, type, operators_.op(buffer.type, op), comm_),
                    "MPI_Allreduce");
      case Operation::reduce_scatter:
        return reduce_scatter_into_place(request);
      case Operation::all_gather:
        set_chunks(buffer.count);
        return call(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, lengths_.data(), begins_.data(),
                                   type, comm_),
                    "MPI_Allgatherv");
      case Operation::broadcast:
        return call(MPI_Bcast(data, count, type, to_int(root), comm_), "MPI_Bcast");
      case Operation::reduce:
        return reduce_to_root(request);
      case Operation::barrier:
        return;
    }
  }

  // Into other memory where the root is not rank 0: in place MPICH 4.0 then copies from the address that says
  // "in place" (from about a thousand elements on), and dies.
  void reduce_to_root(const Request& request) {
    const auto& [operation, buffer, op, root] = request;
    const bool here = rank() == root;
    const bool in_place = root == Rank{0};
    std::vector<std::byte> result(here && !in_place ? buffer.bytes() : 0);
    void* into = in_place ? buffer.data : result.data();
    call(MPI_Reduce(here && in_place ? MPI_IN_PLACE : buffer.data, here ? into : nullptr,
                    as_count(buffer.count), operators_.type(buffer.type), operators_.op(buffer.type, op),
                    to_int(root), comm_),
         "MPI_Reduce");
    std::ranges::copy(result, static_cast<std::byte*>(buffer.data));
  }

  // In place MPI would put the result at the buffer's beginning.
  void reduce_scatter_into_place(const Request& request) {
    const Buffer& buffer = request.buffer;
    set_chunks(buffer.count);
    const Chunk mine = collectives::equal_chunk(buffer.count, world(), to_int(rank()));
    const std::size_t size = size_of(buffer.type);
    std::vector<std::byte> result(mine.count * size);
    call(MPI_Reduce_scatter(buffer.data, result.data(), lengths_.data(), operators_.type(buffer.type),
                            operators_.op(buffer.type, request.op), comm_),
         "MPI_Reduce_scatter");
    std::ranges::copy(result, static_cast<std::byte*>(buffer.data) + mine.first * size);
  }

  // Every rank's part of so many elements.
  void set_chunks(std::size_t count) {
    for (int r = 0; r < world(); ++r) {
      const Chunk chunk = collectives::equal_chunk(count, world(), r);
      lengths_[static_cast<std::size_t>(r)] = as_count(chunk.count);
      begins_[static_cast<std::size_t>(r)] = as_count(chunk.first);
    }
  }

  Operators operators_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<int> lengths_;
  std::vector<int> begins_;
  Watchdog watchdog_;  // last: its thread uses what is above
};

}  // namespace

std::unique_ptr<collectives::Collectives> make_engine(net::Transport& transport, Clock::duration timeout) {
  return std::make_unique<MpiEngine>(transport, timeout);
}

}  // namespace tutti::mpi
