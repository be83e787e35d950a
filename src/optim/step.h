// One optimizer step over flat spans of floats.
//
// An update is elementwise, so a worker that updates a bucket and a server that updates a shard of it give
// the same bits, however the span is cut and whatever vector width the machine has. Pure functions of their
// arguments; threads may update disjoint spans at once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/shard_tree.h"
#include "optim/settings.h"

namespace tutti::optim {

// How many floats of state a parameter has, and what each is called in a checkpoint, as in PyTorch:
// momentum, nesterov and lars: "momentum"; adam, adamw and lamb: "exp_avg", "exp_avg_sq"; adagrad: "sum";
// rmsprop: "square_avg" and, if it has momentum, "momentum".
int state_slots(const Settings& settings);
std::string_view slot_name(const Settings& settings, int slot);

// Applies step `t`, counted from 1, with learning rate `lr` (a schedule's; settings.lr is not read). `state`
// holds state_slots(settings) spans as long as `parameters`, all zero before the first step. No two spans may
// overlap. Not for kinds that need layers (optim/layerwise.h).
void step(const Settings& settings, double lr, std::int64_t t, std::span<float> parameters,
          std::span<const float> gradients, std::span<const std::span<float>> state);

// The same for some rows of a table `width` wide: `gradients` has one row for each of `rows`, which are
// distinct. A row that is not named keeps its value and its state: exact for sgd without decay and for
// adagrad; momentum does not go on moving it, and the averages of adam and rmsprop do not fade, as in
// PyTorch's SparseAdam.
void step_rows(const Settings& settings, double lr, std::int64_t t, std::size_t width,
               std::span<const std::uint32_t> rows, std::span<float> table, std::span<const float> gradients,
               std::span<const std::span<float>> state);

// into = the mean of the spans in `from`, added in their order, so that the bits do not depend on who came
// first. `into` may be the first of them. At least one; all of one length.
void average(std::span<float> into, std::span<const std::span<const float>> from);

// The same over all shards of a tree, in its order: `from` are sums over nodes that together are all of it.
void average_shards(std::span<float> into, const ShardTree& tree, std::vector<ShardTree::Held> nodes,
                    std::span<const std::span<const float>> from);

}  // namespace tutti::optim
