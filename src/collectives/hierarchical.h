// An all-reduce inside and between hosts; hierarchical.cc has the picture.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/native.h"
#include "net/group.h"

namespace tutti::collectives {

// One thread at a time, which blocks; for large buffers a second one works beside it meanwhile.
class Hierarchy {
 public:
  // Of ranks on several hosts, some of which share one. All of it outlives the hierarchy.
  Hierarchy(net::Transport& all, const Hosts& hosts);

  // The ranks of this host; null if this one is alone there.
  NativeEngine* inside() { return inside_.get(); }
  const NativeEngine* inside() const { return inside_.get(); }

  // Buffers that the inside has allocated are reduced where they lie; others pass through such memory, part
  // by part. After a failure nothing works any more, here and on the transports.
  void all_reduce(Buffer buffer, ReduceOp op, std::string_view label);

  // The same three stages as messages, for sums whose order counts (in_order.h): of every rank, for floats.
  std::vector<Schedule> schedules(std::size_t count) const;

  void cancel();

  // Inside and between.
  std::uint64_t bytes_sent() const;

 private:
  // Of the buffer, what is in one stage at a time. `shared` lies where neighbours can reduce it.
  struct Block {
    Buffer own;
    Buffer shared;
    bool is_staged() const { return own.data != shared.data; }
  };
  struct Task {
    std::vector<Block> blocks;
    ReduceOp op;
    std::string_view label;
  };

  Task cut(const Buffer& buffer, ReduceOp op, std::string_view label) const;
  Buffer stripe(const Block& block, int index) const;
  void run_overlapped(const Task& task);

  // The three stages of a block.
  void reduce_inside(const Task& task, const Block& block);
  void reduce_between(const Task& task, const Block& block);
  void gather_inside(const Task& task, const Block& block);

  net::Transport& all_;
  net::Transport* const neighbours_;
  const std::map<int, std::vector<Rank>> ranks_;  // by host
  int stripes_ = 0;                               // as many as the smallest host has ranks
  int place_ = 0;                                 // of this rank among those of its host
  std::unique_ptr<NativeEngine> inside_;
  std::span<std::byte> staging_;  // two blocks, in memory of the neighbours
  // The ranks with this one's place on each host; none where the place has no stripe.
  std::optional<net::Survivors> column_;
  std::optional<NativeEngine> between_;
};

}  // namespace tutti::collectives
