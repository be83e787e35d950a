#include "checkpoint/diff.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/text_table.h"

namespace tutti::checkpoint {
namespace {

TensorKind kind_of(const TensorView& tensor) {
  return {.dtype = tensor.dtype, .shape = tensor.shape};
}

TensorDiff only_in(Difference side, const TensorView& tensor) {
  TensorDiff out{.name = tensor.name,
                 .difference = side,
                 .first = {},
                 .second = {},
                 .elements = tensor.elements(),
                 .values = {}};
  (side == Difference::only_in_first ? out.first : out.second) = kind_of(tensor);
  return out;
}

TensorDiff diff_pair(const TensorView& a, const TensorView& b) {
  TensorDiff out{.name = a.name,
                 .difference = Difference::none,
                 .first = kind_of(a),
                 .second = kind_of(b),
                 .elements = a.elements(),
                 .values = {}};
  if (a.dtype != b.dtype) {
    out.difference = Difference::dtype;
  } else if (a.shape != b.shape) {
    out.difference = Difference::shape;
  } else {
    out.values = compare(a.dtype, a.bytes, b.bytes);
    if (out.values.differing > 0) out.difference = Difference::values;
  }
  return out;
}

std::string kind_text(const TensorKind& kind) {
  return fmt::format("{} {}", name_of(kind.dtype), shape_text(kind.shape));
}

std::string what_text(const TensorDiff& t) {
  switch (t.difference) {
    case Difference::none:
      return "identical";
    case Difference::only_in_first:
      return fmt::format("only in the first: {}", kind_text(*t.first));
    case Difference::only_in_second:
      return fmt::format("only in the second: {}", kind_text(*t.second));
    case Difference::dtype:
      return fmt::format("type: {} against {}", name_of(t.first->dtype), name_of(t.second->dtype));
    case Difference::shape:
      return fmt::format("shape: {} against {}", shape_text(t.first->shape), shape_text(t.second->shape));
    case Difference::values:
      return fmt::format("{} of {} elements", t.values.differing, t.elements);
  }
  return "?";
}

std::vector<std::string> row_of(const TensorDiff& t) {
  std::vector<std::string> row{printable(t.name), what_text(t), "", "", ""};
  if (t.difference != Difference::values) return row;
  const bool all_nan = t.values.nan == t.values.differing;
  row[2] = t.values.nan == 0 ? fmt::format("{}", t.values.max_ulps)
           : all_nan         ? fmt::format("NaN in {}", t.values.nan)
                             : fmt::format("{}, NaN in {}", t.values.max_ulps, t.values.nan);
  row[3] = all_nan ? "NaN" : fmt::format("{:.6g}", t.values.max_abs);
  row[4] = place_text(t.values.first, t.first->shape);
  return row;
}

// What both checkpoints say of how they were computed, where it is not the same.
std::vector<OtherArithmetic> other_arithmetic(const nlohmann::json& first, const nlohmann::json& second) {
  std::vector<OtherArithmetic> others;
  if (!first.is_object() || !second.is_object()) return others;
  if (!first.contains("arithmetic") || !second.contains("arithmetic")) return others;
  const nlohmann::json& b = second["arithmetic"];
  for (const auto& [what, value] : first["arithmetic"].items()) {
    if (b.contains(what) && b[what] != value) others.push_back({what, value.dump(), b[what].dump()});
  }
  return others;
}

}  // namespace

std::string place_text(std::int64_t element, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> place(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; element /= shape[d]) place[d] = element % shape[d];
  return shape_text(place);
}

bool Diff::identical() const {
  return std::ranges::all_of(tensors, [](const auto& t) { return t.difference == Difference::none; });
}

Diff diff(std::span<const TensorView> first, std::span<const TensorView> second) {
  const auto a = in_name_order(first);
  const auto b = in_name_order(second);
  Diff out;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (j == b.size() || (i < a.size() && a[i].name < b[j].name)) {
      out.tensors.push_back(only_in(Difference::only_in_first, a[i++]));
    } else if (i == a.size() || b[j].name < a[i].name) {
      out.tensors.push_back(only_in(Difference::only_in_second, b[j++]));
    } else {
      out.tensors.push_back(diff_pair(a[i++], b[j++]));
    }
  }
  return out;
}

Diff diff(const Checkpoint& first, const Checkpoint& second) {
  Diff out = diff(first.model.tensors(), second.model.tensors());
  out.arithmetic = other_arithmetic(first.meta, second.meta);
  if (!first.optimizer || !second.optimizer) return out;
  for (auto& tensor : diff(first.optimizer->tensors(), second.optimizer->tensors()).tensors) {
    tensor.name = "optimizer: " + tensor.name;
    out.tensors.push_back(std::move(tensor));
  }
  return out;
}

std::string render(const Diff& diff) {
  std::int64_t elements = 0;
  std::int64_t zero_signs = 0;
  std::size_t differing = 0;
  TextTable table({{"tensor"}, {"differs"}, {"max ULPs", true}, {"max |a-b|", true}, {"first at"}});
  for (const auto& tensor : diff.tensors) {
    elements += tensor.elements;
    zero_signs += tensor.values.zero_signs;
    if (tensor.difference == Difference::none) continue;
    ++differing;
    table.add(row_of(tensor));
  }
  if (differing == 0)
    return fmt::format("identical: {} tensors, {} elements\n", diff.tensors.size(), elements);
  std::string out = table.text() + fmt::format("{} of {} tensors differ\n", differing, diff.tensors.size());
  for (const auto& [what, first, second] : diff.arithmetic) {
    out += fmt::format("likely reason: {} {} against {}\n", what, first, second);
  }
  if (zero_signs > 0) out += fmt::format("{} elements are +0 against -0: other bits, 0 ULPs\n", zero_signs);
  return out;
}

}  // namespace tutti::checkpoint
