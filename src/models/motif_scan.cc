#include "models/motif_scan.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/simd.h"

namespace tutti::models {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Motifs are scanned so many at a time: their sums stay in registers, and what they add in the cache. Spelt
// out as vectors, because the compiler mixes up the loops over places and motifs.
using Floats = float __attribute__((vector_size(32)));
using Ints = std::int32_t __attribute__((vector_size(32)));
constexpr int kVectors = 4;
constexpr std::int64_t kLanes = kVectors * 8;
struct alignas(64) Lanes {
  Floats v[kVectors]{};
};
struct alignas(64) Places {
  Ints v[kVectors]{};
};

template <typename Block, typename Number>
Block load(const Number* from) {
  Block block;
  std::memcpy(&block.v, from, sizeof block);
  return block;
}
template <typename Block, typename Number>
void store(const Block& block, Number* to) {
  std::memcpy(to, &block.v, sizeof block);
}

struct Sequence {
  const std::uint8_t* letters;
  std::int64_t length;
};

struct ScanShape {
  ScanShape(const Tensor& letters, const Tensor& table)
      : sequences(letters.size(0)),
        width(table.size(0)),
        alphabet(table.size(1)),
        motifs(table.size(2)),
        windows(letters.size(1) - width + 1) {
    TUTTI_CHECK(windows > 0, "motifs of {} places, sequences of {}", width, letters.size(1));
    TUTTI_CHECK(motifs % kLanes == 0, "{} motifs", motifs);
  }
  // Of which a window has more than padding.
  std::int64_t windows_of(const Sequence& s) const { return std::min(s.length, windows); }
  std::int64_t rows() const { return width * alphabet; }

  std::int64_t sequences, width, alphabet, motifs, windows;
};

Sequence sequence_of(const Tensor& letters, const Tensor& lengths, std::int64_t i) {
  return {letters.data_ptr<std::uint8_t>() + i * letters.size(1), lengths.data_ptr<std::int64_t>()[i]};
}

// The rows of some motifs, one after the other.
std::vector<Lanes> pack(const Tensor& table, const ScanShape& s, std::int64_t first) {
  std::vector<Lanes> rows;
  for (std::int64_t row = 0; row < s.rows(); ++row)
    rows.push_back(load<Lanes>(table.data_ptr<float>() + row * s.motifs + first));
  return rows;
}

[[gnu::always_inline]] inline void score(const Sequence& q, std::int64_t window, const ScanShape& s,
                                         const Lanes* table, Lanes& sum) {
  const std::int64_t places = std::min(s.width, q.length - window);
  for (std::int64_t j = 0; j < places; ++j) {
    const Lanes& row = table[j * s.alphabet + q.letters[window + j]];
    for (int i = 0; i < kVectors; ++i) sum.v[i] += row.v[i];
  }
}

struct Scores {  // of one sequence
  Lanes sum, squares, best;
  Places at;
};

TUTTI_SIMD_CLONES void scan(const Sequence& q, const ScanShape& s, const Lanes* table, Scores& of) {
  for (Floats& best : of.best.v) best = best - std::numeric_limits<float>::infinity();
  const std::int64_t windows = s.windows_of(q);
  for (std::int64_t w = 0; w < windows; ++w) {
    Lanes y;
    score(q, w, s, table, y);
    for (int i = 0; i < kVectors; ++i) {
      const Ints better = y.v[i] > of.best.v[i];
      of.sum.v[i] += y.v[i];
      of.squares.v[i] += y.v[i] * y.v[i];
      of.best.v[i] = better ? y.v[i] : of.best.v[i];
      of.at.v[i] = better ? Ints{} + static_cast<std::int32_t>(w) : of.at.v[i];
    }
  }
  if (windows == s.windows) return;
  for (int i = 0; i < kVectors; ++i) {  // then come windows of nothing but padding
    const Ints better = Floats{} > of.best.v[i];
    of.best.v[i] = better ? Floats{} : of.best.v[i];
    of.at.v[i] = better ? Ints{} + static_cast<std::int32_t>(windows) : of.at.v[i];
  }
}

// What gradients make of a score y: shift + scale * y, and more where it is the best.
struct Slopes {
  Lanes shift, scale;
};

TUTTI_SIMD_CLONES void scan_back(const Sequence& q, const ScanShape& s, const Lanes* table,
                                 const Slopes& slopes, const Lanes& to_best, const Places& at,
                                 Lanes* to_table) {
  const std::int64_t windows = s.windows_of(q);
  for (std::int64_t w = 0; w < windows; ++w) {
    Lanes y;
    score(q, w, s, table, y);
    for (int i = 0; i < kVectors; ++i) {
      const Ints is_best = at.v[i] == static_cast<std::int32_t>(w);
      y.v[i] = slopes.shift.v[i] + slopes.scale.v[i] * y.v[i] + (is_best ? to_best.v[i] : Floats{});
    }
    const std::int64_t places = std::min(s.width, q.length - w);
    for (std::int64_t j = 0; j < places; ++j) {
      Lanes& row = to_table[j * s.alphabet + q.letters[w + j]];
      for (int i = 0; i < kVectors; ++i) row.v[i] += y.v[i];
    }
  }
}

// In blocks of motifs, each by one of libtorch's number of threads: no sum is shared. They are our own:
// at::parallel_for computes alone in code that is not compiled for OpenMP.
template <typename Work>
void for_blocks(const ScanShape& s, const Work& work) {
  const std::int64_t blocks = s.motifs / kLanes;
  std::atomic<std::int64_t> next{0};
  const auto take = [&] {
    for (std::int64_t block = next++; block < blocks; block = next++) work(block * kLanes);
  };
  std::vector<std::jthread> others;
  for (std::int64_t i = 1; i < std::min<std::int64_t>(at::get_num_threads(), blocks); ++i)
    others.emplace_back(take);
  take();
}

Tensor or_zeros(const Tensor& gradient, at::IntArrayRef sizes) {
  return gradient.defined() ? gradient.to(torch::kFloat32).contiguous() : torch::zeros(sizes);
}

class Scan : public torch::autograd::Function<Scan> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& letters, const Tensor& lengths,
                               const Tensor& table) {
    const ScanShape s(letters, table);
    const Tensor best = torch::empty({s.sequences, s.motifs});
    const Tensor at = torch::empty({s.sequences, s.motifs}, torch::kInt32);
    const Tensor sums = torch::zeros({2, s.motifs}, torch::kFloat64);
    double* const sum = sums.data_ptr<double>();
    double* const square = sum + s.motifs;
    for_blocks(s, [&](std::int64_t first) {
      const auto packed = pack(table, s, first);
      for (std::int64_t i = 0; i < s.sequences; ++i) {
        Scores of;
        scan(sequence_of(letters, lengths, i), s, packed.data(), of);
        store(of.best, best.data_ptr<float>() + i * s.motifs + first);
        store(of.at, at.data_ptr<std::int32_t>() + i * s.motifs + first);
        for (std::int64_t k = 0; k < kLanes; ++k) {
          sum[first + k] += static_cast<double>(of.sum.v[k / 8][k % 8]);
          square[first + k] += static_cast<double>(of.squares.v[k / 8][k % 8]);
        }
      }
    });
    const Tensor moments = sums / static_cast<double>(s.sequences * s.windows);
    const Tensor mean = moments[0].to(torch::kFloat32);
    const Tensor variance = (moments[1] - moments[0].square()).clamp_min(0).to(torch::kFloat32);
    context->save_for_backward({letters, lengths, table, at, mean});
    return {best, mean, variance};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& letters = saved[0];
    const Tensor& table = saved[2];
    const Tensor& at = saved[3];
    const ScanShape s(letters, table);
    const auto count = static_cast<double>(s.sequences * s.windows);
    const Tensor to_best = or_zeros(gradients[0], {s.sequences, s.motifs});
    const Tensor scale = or_zeros(gradients[2], {s.motifs}) * (2 / count);
    const Tensor shift = or_zeros(gradients[1], {s.motifs}) / count - scale * saved[4];
    const Tensor to_table = torch::empty_like(table);
    for_blocks(s, [&](std::int64_t first) {
      const auto packed = pack(table, s, first);
      std::vector<Lanes> sums(packed.size());
      const Slopes slopes{load<Lanes>(shift.data_ptr<float>() + first),
                          load<Lanes>(scale.data_ptr<float>() + first)};
      for (std::int64_t i = 0; i < s.sequences; ++i) {
        const std::int64_t here = i * s.motifs + first;
        scan_back(sequence_of(letters, saved[1], i), s, packed.data(), slopes,
                  load<Lanes>(to_best.data_ptr<float>() + here),
                  load<Places>(at.data_ptr<std::int32_t>() + here), sums.data());
      }
      for (std::int64_t row = 0; row < s.rows(); ++row) {
        store(sums[static_cast<std::size_t>(row)], to_table.data_ptr<float>() + row * s.motifs + first);
      }
    });
    return {{}, {}, to_table};
  }
};

}  // namespace

Sequences::Sequences(const Tensor& of, std::int64_t alphabet, std::int64_t padding)
    : letters(of.to(torch::kUInt8).contiguous()),
      lengths(std::get<0>(
          (of.ne(padding).to(torch::kInt64) * torch::arange(1, of.size(1) + 1, torch::kInt64)).max(1))) {
  const auto lowest = of.min().item<std::int64_t>();
  const auto highest = of.max().item<std::int64_t>();
  TUTTI_CHECK(lowest >= 0 && highest < std::min<std::int64_t>(alphabet, 256), "letters {} to {} of {}",
              lowest, highest, alphabet);
}

MotifScores scan_motifs(const Sequences& sequences, const Tensor& table) {
  const auto scores =
      Scan::apply(sequences.letters, sequences.lengths, table.to(torch::kFloat32).contiguous());
  const ScanShape s(sequences.letters, table);
  return {scores[0], scores[1], scores[2], s.sequences * s.windows};
}

}  // namespace tutti::models
