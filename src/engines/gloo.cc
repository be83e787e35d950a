// The engine "gloo": libtorch's own collectives for processors, over TCP connections that Gloo makes.
//
// Gloo lacks some of what our interface has, and gets it from what it does have: a reduce-scatter is an
// all-reduce of which each rank uses a part; chunks of unequal length are gathered in equal ones; numbers of
// half precision travel as float32 (Gloo would round after each term); and a minimum or maximum is taken here
// from everyone's values, because Gloo's loses a NaN.
//
// A call of Gloo's cannot be given up either: after ours has failed, Gloo goes on when a late peer comes. So
// Gloo never sees the caller's memory, which may be gone by then, but a copy that lives as long as its work.
//
// The process must ignore SIGPIPE, as the program does: Gloo writes to connections that a peer has closed.
#include "engines/engines.h"

#ifdef TUTTI_HAVE_GLOO
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO  // libtorch's header is empty without it
#endif

#include <torch/torch.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/error.h"
#include "collectives/foreign.h"
#include "engines/message_store.h"

namespace tutti::engines {
namespace {

using collectives::Buffer;
using collectives::Chunk;
using collectives::Operation;
using collectives::ReduceOp;

// Deadlines are ours (collectives/foreign.h); Gloo's own would end a wait for a rank that evaluates.
constexpr auto kGlooWaits = std::chrono::hours(24 * 7);

// What Gloo may take to end a work whose peer is gone, before its threads are left behind.
constexpr auto kTimeToEnd = std::chrono::seconds(2);

at::ScalarType scalar_of(DType type) {
  switch (type) {
    case DType::f32:
      return at::kFloat;
    case DType::f64:
      return at::kDouble;
    case DType::i32:
      return at::kInt;
    case DType::i64:
      return at::kLong;
    case DType::bf16:
      return at::kBFloat16;
    case DType::f16:
      return at::kHalf;
  }
  return at::kFloat;
}

at::Tensor view_of(const Buffer& buffer) {
  return at::from_blob(buffer.data, {static_cast<std::int64_t>(buffer.count)}, scalar_of(buffer.type));
}

// A work of Gloo's whose end can be waited for with a limit. (c10d's own wait throws when the limit is over.)
class Ending {
 public:
  explicit Ending(c10::intrusive_ptr<c10d::Work> work)
      : work_(std::move(work)), state_(std::make_shared<State>()) {
    work_->getFuture()->addCallback([state = state_](c10::ivalue::Future&) {
      const std::lock_guard lock(state->mutex);
      state->over = true;
      state->changed.notify_all();
    });
  }

  bool wait(Clock::duration at_most) {
    {
      std::unique_lock lock(state_->mutex);
      if (!state_->changed.wait_for(lock, at_most, [this] { return state_->over; })) return false;
    }
    work_->wait();  // no more than a moment; throws what went wrong
    return true;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false;
  };
  c10::intrusive_ptr<c10d::Work> work_;
  std::shared_ptr<State> state_;  // the callback may outlive us
};

class GlooEngine final : public collectives::ForeignEngine {
 public:
  GlooEngine(net::Transport& transport, const EngineOptions& options)
      : ForeignEngine(transport, options.timeout) {
    if (world() == 1) return;
    const auto store = c10::make_intrusive<MessageStore>(transport, options.timeout);
    const auto gloo = c10d::ProcessGroupGloo::Options::create(kGlooWaits);
    gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
    gloo->threads = 1;  // one call at a time
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, to_int(rank()), world(), gloo);
    store->close();
  }

  ~GlooEngine() override {
    if (!failed() || !last_) return;
    bool over = true;
    try {
      over = last_->wait(kTimeToEnd);
    } catch (const std::exception&) {  // so it is
    }
    // Its end would wait for a work that never ends.
    if (!over) (void)group_.release();
  }

  collectives::Method method(Operation, std::uint64_t) const override {
    return {"its own", "Gloo chooses, over TCP connections of its own"};
  }

 private:
  class Started final : public Work {
   public:
    Started(std::shared_ptr<Ending> end, std::function<void()> finish)
        : end_(std::move(end)), finish_(std::move(finish)) {}
    bool wait(Clock::duration at_most) override {
      if (!end_->wait(at_most)) return false;
      if (finish_) finish_();
      return true;
    }

   private:
    std::shared_ptr<Ending> end_;
    std::function<void()> finish_;
  };

  std::unique_ptr<Work> started(c10::intrusive_ptr<c10d::Work> work, std::function<void()> finish = nullptr) {
    last_ = std::make_shared<Ending>(std::move(work));
    return std::make_unique<Started>(last_, std::move(finish));
  }

  std::unique_ptr<Work> start(const Request& request, const net::Activity&) override {
    const auto& [operation, buffer, op, root] = request;
    switch (operation) {
      case Operation::barrier:
        return started(group_->barrier());
      case Operation::broadcast:
        return start_broadcast(buffer, root);
      case Operation::all_gather:
        return start_gather(buffer);
      case Operation::all_reduce:
      case Operation::reduce_scatter:
      case Operation::reduce:
        break;
    }
    if (op != ReduceOp::sum) return start_extreme(buffer, op);
    return start_sum(buffer, operation == Operation::reduce ? std::optional(root) : std::nullopt);
  }

  // What only moves is bytes to Gloo, whatever its type.
  static at::Tensor bytes_of(const Buffer& buffer) {
    return at::from_blob(buffer.data, {static_cast<std::int64_t>(buffer.bytes())}, at::kByte);
  }

  // Memory of the engine's for what is copied: made once, for its pages are dear. The work holds it, too.
  at::Tensor copy_of(const at::Tensor& values, at::ScalarType type) {
    const std::int64_t bytes = values.numel() * static_cast<std::int64_t>(at::elementSize(type));
    if (!scratch_.defined() || scratch_.numel() < bytes) scratch_ = at::empty({bytes}, at::kByte);
    at::Tensor copy = scratch_.narrow(0, 0, bytes).view(type);
    copy.copy_(values);
    return copy;
  }

  std::unique_ptr<Work> start_broadcast(const Buffer& buffer, Rank root) {
    const at::Tensor bytes = bytes_of(buffer);
    std::vector<at::Tensor> tensors = {copy_of(bytes, at::kByte)};
    std::function<void()> finish;
    if (rank() != root) finish = [bytes, copy = tensors[0]] { bytes.copy_(copy); };
    return started(group_->broadcast(tensors, {to_int(root)}), std::move(finish));
  }

  std::unique_ptr<Work> start_sum(const Buffer& buffer, std::optional<Rank> root) {
    const at::Tensor values = view_of(buffer);
    const bool half = buffer.type == DType::bf16 || buffer.type == DType::f16;
    std::vector<at::Tensor> tensors = {copy_of(values, half ? at::kFloat : values.scalar_type())};
    const auto finish = [values, copy = tensors[0]] { values.copy_(copy); };
    c10d::ReduceOptions to_root;
    if (root) to_root.rootRank = to_int(*root);
    return started(root ? group_->reduce(tensors, to_root) : group_->allreduce(tensors), finish);
  }

  std::unique_ptr<Work> start_gather(const Buffer& buffer) {
    const std::size_t size = size_of(buffer.type);
    const std::size_t longest = collectives::equal_chunk(buffer.count, world(), 0).count * size;
    const auto bytes_at = [=, this](int r) {
      const Chunk chunk = collectives::equal_chunk(buffer.count, world(), r);
      return at::from_blob(static_cast<std::byte*>(buffer.data) + chunk.first * size,
                           {static_cast<std::int64_t>(chunk.count * size)}, at::kByte);
    };
    const at::Tensor mine = bytes_at(to_int(rank()));
    at::Tensor padded = at::zeros({static_cast<std::int64_t>(longest)}, at::kByte);
    padded.narrow(0, 0, mine.numel()).copy_(mine);
    return start_gather_whole(padded, [=, this](const std::vector<at::Tensor>& all) {
      for (int r = 0; r < world(); ++r) {
        const at::Tensor place = bytes_at(r);
        place.copy_(all[static_cast<std::size_t>(r)].narrow(0, 0, place.numel()));
      }
    });
  }

  std::unique_ptr<Work> start_extreme(const Buffer& buffer, ReduceOp op) {
    return start_gather_whole(copy_of(bytes_of(buffer), at::kByte), [=](const std::vector<at::Tensor>& all) {
      std::memcpy(buffer.data, all[0].data_ptr(), buffer.bytes());
      for (std::size_t r = 1; r < all.size(); ++r) {
        collectives::combine(buffer.type, op, buffer.data, all[r].data_ptr(), buffer.count);
      }
    });
  }

  // Everyone's tensor, of the same length, for `finish`.
  std::unique_ptr<Work> start_gather_whole(const at::Tensor& mine,
                                           std::function<void(const std::vector<at::Tensor>&)> finish) {
    std::vector<std::vector<at::Tensor>> all(1);
    for (int r = 0; r < world(); ++r) all[0].push_back(at::empty_like(mine));
    std::vector<at::Tensor> inputs = {mine};
    auto work = group_->allgather(all, inputs);
    return started(std::move(work), [all = std::move(all[0]), finish = std::move(finish)] { finish(all); });
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::shared_ptr<Ending> last_;
  at::Tensor scratch_;  // what Gloo is at; the next call begins when the last is over, or never
};

std::unique_ptr<collectives::Collectives> make_gloo(net::Transport& transport, const EngineOptions& options) {
  return std::make_unique<GlooEngine>(transport, options);
}

std::string why_not_gloo() {
  return "";
}

}  // namespace
}  // namespace tutti::engines

#else

namespace tutti::engines {
namespace {

constexpr auto make_gloo = nullptr;

std::string why_not_gloo() {
  return "this build's libtorch has no Gloo";
}

}  // namespace
}  // namespace tutti::engines

#endif

namespace tutti::engines {

EngineInfo gloo() {
  return {.name = "gloo",
          .summary = "libtorch's c10d with Gloo, over TCP connections of its own",
          .between_hosts = "Gloo's connections are not authenticated: use it on a network that you trust",
          .why_not = why_not_gloo,
          .make = make_gloo};
}

}  // namespace tutti::engines
