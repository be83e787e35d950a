#include "config/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <concepts>
#include <cstdlib>
#include <filesystem>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "config/settings.h"

namespace tutti::config {
namespace {

CLI::Option* add_value(CLI::App& command, const Setting& setting, auto& field) {
  using Field = std::remove_cvref_t<decltype(field)>;
  const auto name = (setting.letter != 0 ? fmt::format("-{},", setting.letter) : "") + "--" + setting.flag;
  const std::string help(setting.help);
  if constexpr (std::same_as<Field, bool>) {
    return command.add_flag(name, field, help);
  } else {
    if constexpr (std::same_as<Field, std::uint64_t>) {
      const auto read = [&field](const std::string& text) { field = parse_bytes(text); };
      if (setting.bytes) return command.add_option_function<std::string>(name, read, help);
    }
    return command.add_option(name, field, help);
  }
}

void add_flag(CLI::App& command, const Setting& setting, TrainConfig& config) {
  auto* option =
      std::visit([&](auto member) { return add_value(command, setting, config.*member); }, setting.member);
  option->envname(setting.variable)->group(std::string(title_of(setting.group)));
  if (!std::holds_alternative<bool TrainConfig::*>(setting.member)) {
    option->default_str(text_of(setting, config));
  }
  const auto* range = std::get_if<Range>(&setting.check);
  if (range == nullptr || !range->said_least) return;
  const auto refuse_less = [least = *range->said_least](const std::string& text) {
    return std::strtod(text.c_str(), nullptr) < least
               ? fmt::format("must be at least {}, not {}", least, text)
               : "";
  };
  option->check(refuse_less, "");
}

}  // namespace

void add_train_flags(CLI::App& command, TrainConfig& config) {
  for (const Setting& setting : settings()) add_flag(command, setting, config);
  // Only here is known whether --batch was said: its default is a number like any other.
  command.get_option("--global-batch")->excludes(command.get_option("--batch"));
}

void add_own_data_flags(CLI::App& command, TrainConfig& config) {
  for (const Setting& setting : settings()) {
    if (setting.group == Group::own_data) add_flag(command, setting, config);
  }
}

JoinSettings join_settings() {
  CLI::App nothing_said;
  TrainConfig config;
  for (const Setting& setting : settings()) {
    if (setting.group == Group::joining) add_flag(nothing_said, setting, config);
  }
  try {
    nothing_said.parse(std::vector<std::string>{});
  } catch (const CLI::ParseError& e) {
    throw ConfigError(e.what());
  }
  return join_settings_of(config);
}

void apply_config_file(CLI::App& command, const std::string& path) {
  if (!std::filesystem::is_regular_file(path))
    throw ConfigError(fmt::format("--config {}: no such file", path));
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_file(path);
  } catch (const CLI::Error& e) {
    throw ConfigError(fmt::format("--config {}: {}", path, e.what()));
  }
  for (const CLI::ConfigItem& item : items) {
    if (!item.parents.empty()) {
      throw ConfigError(fmt::format("--config {}: section [{}]: flags stand at the top, without sections",
                                    path, item.parents.front()));
    }
    CLI::Option* option = command.get_option_no_throw("--" + item.name);
    if (option == nullptr) throw ConfigError(fmt::format("--config {}: unknown key '{}'", path, item.name));
    if (option->count() > 0) continue;
    try {
      option->add_result(item.inputs);
      option->run_callback();
    } catch (const std::exception& e) {
      throw ConfigError(fmt::format("--config {}: {}: {}", path, item.name, e.what()));
    }
  }
}

void lay_over(const CLI::App& command, const TrainConfig& given, TrainConfig& config) {
  for (const Setting& setting : settings()) {
    const auto* option = command.get_option_no_throw("--" + setting.flag);
    if (option != nullptr && option->count() > 0) copy(setting, given, config);
  }
}

}  // namespace tutti::config
