// Sequences of G-protein-coupled receptors as the DeepFam study has them: label, tab, sequence, a line each.
//
// A sequence becomes 1000 numbers. Letters of amino acids that are known stand first; then X, O and U, which
// the study gives a place of their own; then three that mean one of two, which it shares between both: B (D
// or N), Z (E or Q), J (I or L); last `_`, the padding, which is nothing. A short sequence is padded.
#pragma once

#include "data/record_format.h"

namespace tutti::data {

inline constexpr std::string_view kAminoAcids = "ACDEFGHIKLMNPQRSTVWY";  // 0 to 19
enum class GpcrLetter : std::uint32_t { other = 20, d_or_n, e_or_q, i_or_l, padding, count };

class GpcrFormat final : public RecordFormat {
 public:
  std::vector<Field> native_fields(const PartFiles& sources) const override;
  bool can_give(const std::vector<Field>& wanted) const override;

 private:
  // One source a part.
  std::array<Words, 2> read(const PartFiles& sources, const std::vector<Field>& wanted) const override;
};

}  // namespace tutti::data
