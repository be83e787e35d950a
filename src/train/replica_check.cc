#include "train/replica_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/xxh64.h"

namespace tutti::train {
namespace {

using Digests = std::vector<std::uint64_t>;

std::uint64_t digest_of(const torch::Tensor& tensor) {
  const auto values = tensor.contiguous();
  return xxh64({static_cast<const std::byte*>(values.data_ptr()), values.nbytes()});
}

// "rank 2 is", "ranks 1, 2 are"
std::string named(const std::vector<int>& ranks) {
  return fmt::format("rank{} {} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "),
                     ranks.size() == 1 ? "is" : "are");
}

// Each with its digest of one tensor: "0123... on rank 0, 4567... on ranks 1, 2".
std::string told(const std::vector<Digests>& digests, std::size_t tensor) {
  std::vector<std::pair<std::uint64_t, std::vector<int>>> groups;  // in the order of their first ranks
  for (std::size_t r = 0; r < digests.size(); ++r) {
    const auto at = std::ranges::find(groups, digests[r][tensor], [](const auto& g) { return g.first; });
    auto& group = at != groups.end() ? *at : groups.emplace_back(digests[r][tensor], std::vector<int>());
    group.second.push_back(static_cast<int>(r));
  }
  std::vector<std::string> said;
  for (const auto& [digest, ranks] : groups) {
    said.push_back(
        fmt::format("{} on rank{} {}", hex64(digest), ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", ")));
  }
  return fmt::format("{}", fmt::join(said, ", "));
}

}  // namespace

void require_same_replicas(const exchange::Strategy& strategy, const config::TrainConfig& c) {
  if (c.check_replicas == 0) return;
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("--check-replicas {}: {}", c.check_replicas, why));
  };
  if (strategy.replicas_differ)
    refuse(fmt::format("under --strategy {} replicas differ between synchronisations", c.strategy));
  if (strategy.asynchronous) refuse(fmt::format("under --strategy {} workers do not keep step", c.strategy));
  if (c.backup_workers > 0)
    refuse(fmt::format("with --backup-workers {} workers do not keep step", c.backup_workers));
}

std::vector<std::uint64_t> parameter_digests(grad::Buckets& buckets) {
  Digests digests(buckets.parameter_count());
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    for (const grad::Slice& s : buckets.layout(b).slices) {
      digests[static_cast<std::size_t>(to_int(s.param))] =
          xxh64(std::as_bytes(buckets.parameters(b).subspan(s.first, s.count)));
    }
  }
  return digests;
}

void ReplicaCheck::after_step(std::int64_t done, grad::Buckets& buckets, const state::NamedTensors& beside,
                              const std::function<void()>& before_end) {
  if (every_ == 0 || done % every_ != 0 || workers_.world() == 1) return;
  const auto begin = Clock::now();
  Digests mine = parameter_digests(buckets);
  for (const auto& [name, tensor] : beside) mine.push_back(digest_of(tensor));
  trace_.add(observe::Lane::compute, "digests of replicas", begin, Clock::now());
  const auto world = static_cast<std::size_t>(workers_.world());
  const auto self = static_cast<std::size_t>(to_int(workers_.rank()));
  std::vector<std::uint64_t> all(world);
  all[self] = xxh64(std::as_bytes(std::span(mine)));
  workers_.all_gather({all.data(), world, DType::i64}, "digests of replicas");
  if (std::ranges::count(all, all[0]) == static_cast<std::ptrdiff_t>(world)) return;

  std::vector<std::uint64_t> by_tensor(world * mine.size());
  std::ranges::copy(mine, by_tensor.begin() + static_cast<std::ptrdiff_t>(self * mine.size()));
  workers_.all_gather({by_tensor.data(), by_tensor.size(), DType::i64}, "digests of tensors");
  std::vector<Digests> digests;
  for (std::size_t r = 0; r < world; ++r) {
    const auto first = by_tensor.begin() + static_cast<std::ptrdiff_t>(r * mine.size());
    digests.emplace_back(first, first + static_cast<std::ptrdiff_t>(mine.size()));
  }
  std::vector<std::string> names;
  for (std::size_t p = 0; p < buckets.parameter_count(); ++p)
    names.push_back(buckets.name_of(grad::ParamId{static_cast<int>(p)}));
  for (const auto& [name, tensor] : beside) names.push_back(name);
  std::string what = fmt::format("step {}: {}", done, differing_replicas(names, digests).value());
  try {
    if (before_end) before_end();
  } catch (const std::exception& e) {  // libtorch throws its own
    what += fmt::format("; {}", e.what());
  }
  // Whoever ended first would have the launcher end the others in the middle of theirs. One that does not
  // come has died over it; what was found is worth more than that.
  try {
    workers_.barrier("replicas that differ");
  } catch (const std::exception& e) {
    what += fmt::format("; {}", e.what());
  }
  throw RunError(what);
}

std::optional<std::string> differing_replicas(const std::vector<std::string>& tensors,
                                              const std::vector<Digests>& digests) {
  std::size_t tensor = 0;
  const auto same = [&](std::size_t t) {
    return std::ranges::all_of(digests, [&](const Digests& d) { return d[t] == digests[0][t]; });
  };
  while (tensor < tensors.size() && same(tensor)) ++tensor;
  if (tensor == tensors.size()) return std::nullopt;

  std::map<Digests, std::vector<int>> groups;
  for (std::size_t r = 0; r < digests.size(); ++r) groups[digests[r]].push_back(static_cast<int>(r));
  const auto most = std::ranges::max_element(groups, {}, [](const auto& g) { return g.second.size(); });
  const auto where = fmt::format("first in {}, whose digest is {}", tensors[tensor], told(digests, tensor));
  if (2 * most->second.size() <= digests.size()) {
    return fmt::format("the replicas differ, and no side has more workers: {}", where);
  }
  std::vector<int> minority;
  for (std::size_t r = 0; r < digests.size(); ++r) {
    if (digests[r] != most->first) minority.push_back(static_cast<int>(r));
  }
  return fmt::format("the replicas differ: {} not as the other {}, {}", named(minority), most->second.size(),
                     where);
}

}  // namespace tutti::train
