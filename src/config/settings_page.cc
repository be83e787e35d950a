#include <fmt/format.h>

#include <optional>
#include <string>
#include <variant>

#include "config/settings.h"

namespace tutti::config {
namespace {

constexpr std::string_view kPreface =
    R"(<!-- Written from src/config/settings.cc; CONTRIBUTING.md says how. -->

# Settings

What `tutti train` can be told. `--lr 0.1` on the command line, `TUTTI_LR=0.1` in the environment and `lr = 0.1` in the file
of `--config` mean the same; the flag wins over the variable, the variable over the file. A switch (default `false`) has no
value on the command line, and `true` or `false` elsewhere. `run.json` and `summary.json` have the settings of a run by their
keys. `tutti compare` takes the same flags, but for a few (`tutti compare --help`).
)";

// Help texts are plain text; some of their characters mean something in a table of Markdown.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '*') result += '\\';
    result += c;
  }
  return result;
}

// Empty where the default stands for "not said": nobody can write it.
std::string default_of(const Setting& setting) {
  const auto text = text_of(setting, TrainConfig{});
  const auto* range = std::get_if<Range>(&setting.check);
  const bool not_said = range != nullptr && range->said_least && std::stod(text) < *range->said_least;
  return text.empty() || not_said ? "" : "`" + text + "`";
}

}  // namespace

std::string settings_page() {
  std::string page(kPreface);
  std::optional<Group> group;
  for (const Setting& setting : settings()) {
    if (setting.group != group) {
      group = setting.group;
      page += fmt::format(
          "\n## {}\n\n| flag | variable | key | default | what it says |\n|---|---|---|---|---|\n",
          title_of(setting.group));
    }
    page += fmt::format("| `--{}` | `{}` | `{}` | {} | {} |\n", setting.flag, setting.variable, setting.key,
                        default_of(setting), escaped(setting.help));
  }
  return page;
}

}  // namespace tutti::config
