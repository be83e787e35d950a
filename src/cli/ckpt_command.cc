#include <fmt/format.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/diff.h"
#include "checkpoint/show.h"
#include "cli/command.h"

namespace tutti::cli {

void add_ckpt(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("ckpt", "Look into checkpoints");
  command->require_subcommand(1);
  struct Paths {
    std::string a, b;
  };
  const auto p = std::make_shared<Paths>();
  const char* what = "step folder, run folder (its last step) or .safetensors file";

  auto* show = command->add_subcommand("show", "Tensors of a checkpoint");
  show->add_option("checkpoint", p->a, what)->required();
  show->callback([p, &action] {
    action = [p] {
      fmt::print("{}", checkpoint::show(checkpoint::open_any(p->a)));
      return 0;
    };
  });

  auto* diff = command->add_subcommand(
      "diff", "Where two checkpoints differ, by how many ULPs; exit 0 if they do not, 1 if they do");
  diff->add_option("first", p->a, what)->required();
  diff->add_option("second", p->b, what)->required();
  diff->callback([p, &action] {
    action = [p] {
      const auto result = checkpoint::diff(checkpoint::open_any(p->a), checkpoint::open_any(p->b));
      fmt::print("{}", checkpoint::render(result));
      return result.identical() ? 0 : 1;
    };
  });
}

}  // namespace tutti::cli
