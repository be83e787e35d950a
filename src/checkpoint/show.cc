#include "checkpoint/show.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/crypto.h"
#include "checkpoint/elements.h"
#include "checkpoint/text_table.h"

namespace tutti::checkpoint {

std::string show(std::span<const TensorView> tensors) {
  TextTable table({{"tensor"},
                   {"type"},
                   {"shape"},
                   {"elements", true},
                   {"bytes", true},
                   {"min", true},
                   {"max", true},
                   {"mean", true},
                   {"L2", true},
                   {"NaN", true}});
  std::int64_t elements = 0;
  std::uint64_t bytes = 0;
  for (const auto& t : tensors) {
    const auto s = statistics(t.dtype, t.bytes);
    const auto number = [](double x) { return fmt::format("{:.4g}", x); };
    table.add({printable(t.name), std::string(name_of(t.dtype)), shape_text(t.shape),
               fmt::format("{}", t.elements()), fmt::format("{}", t.bytes.size()), number(s.min),
               number(s.max), number(s.mean), number(s.l2), fmt::format("{}", s.nan)});
    elements += t.elements();
    bytes += t.bytes.size();
  }
  return table.text() +
         fmt::format("{} tensors, {} elements, {}\n", tensors.size(), elements, human_bytes(bytes));
}

std::string show(const Checkpoint& checkpoint) {
  std::string out = checkpoint.path.string() + "\n";
  if (checkpoint.step) out += fmt::format("step               {}\n", *checkpoint.step);
  if (!checkpoint.meta.is_null()) {
    out += fmt::format("meta               {}\n",
                       checkpoint.meta.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  }
  out += fmt::format("parameters_sha256  {}\n\n", to_hex(parameters_digest(checkpoint.model.tensors())));
  out += show(checkpoint.model.tensors());
  if (checkpoint.optimizer) out += "\noptimizer\n" + show(checkpoint.optimizer->tensors());
  return out;
}

}  // namespace tutti::checkpoint
