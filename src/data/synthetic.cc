#include "data/synthetic.h"

#include "base/error.h"
#include "base/random.h"

namespace tutti::data {
namespace {

constexpr std::uint64_t kUnit = 1 << 20;

double draw(SplitMix64& random) {
  return static_cast<double>(random.below(kUnit)) / static_cast<double>(kUnit);
}

// What a class adds to a field at a place: the same for every sample, sample part and rank.
float lean(std::uint64_t label, std::size_t field, std::size_t place) {
  SplitMix64 random(mix_seed({label, field, place}));
  return static_cast<float>(draw(random)) - 0.5F;
}

void fill_numbers(SplitMix64& random, std::uint64_t label, std::size_t field, std::span<float> into) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    into[i] = lean(label, field, i) + static_cast<float>(2 * draw(random) - 1);
  }
}

// The lowest are the most frequent. Which of a pair of neighbours it is, the class decides most of the time.
void fill_words(SplitMix64& random, std::uint64_t label, std::int64_t below, std::span<std::int64_t> into) {
  for (std::int64_t& word : into) {
    const double u = draw(random);
    word = static_cast<std::int64_t>(u * u * u * static_cast<double>(below));
    if (below > 1 && random.below(4) != 0) {
      const auto pair = word / 2 * 2;
      word = std::min(pair + static_cast<std::int64_t>((label + static_cast<std::uint64_t>(pair / 2)) % 2),
                      below - 1);
    }
  }
}

}  // namespace

SyntheticSamples::SyntheticSamples(std::vector<Field> fields, std::size_t size, std::uint64_t seed)
    : fields_(std::move(fields)), size_(size), seed_(seed) {
  TUTTI_CHECK(!fields_.empty());
  const Field& last = fields_.back();
  labelled_ = last.shape.empty();
  classes_ = labelled_ && last.type == DType::i64 ? static_cast<std::uint64_t>(last.below) : 2;
}

void SyntheticSamples::decode(std::span<const std::uint32_t> indices,
                              std::span<const std::span<std::byte>> into) const {
  const std::size_t last = labelled_ ? fields_.size() - 1 : fields_.size();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    SplitMix64 random(mix_seed({seed_, indices[i]}));
    const std::uint64_t label = random.below(classes_);
    for (std::size_t f = 0; f < last; ++f) {
      const auto sample = into[f].subspan(i * fields_[f].bytes(), fields_[f].bytes());
      fields_[f].type == DType::f32
          ? fill_numbers(random, label, f, as_numbers<float>(sample))
          : fill_words(random, label, fields_[f].below, as_numbers<std::int64_t>(sample));
    }
    if (!labelled_) continue;
    if (fields_[last].type == DType::i64) {
      as_numbers<std::int64_t>(into[last])[i] = static_cast<std::int64_t>(label);
    } else {
      as_numbers<float>(into[last])[i] = static_cast<float>(label);
    }
  }
}

}  // namespace tutti::data
