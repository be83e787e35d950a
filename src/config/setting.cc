// What a row of the table can do.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "config/settings.h"

namespace tutti::config {
namespace {

std::string flag_of(std::string key) {
  std::ranges::replace(key, '_', '-');
  return key;
}

// --some-flag is TUTTI_SOME_FLAG in the environment.
std::string variable_of(std::string flag) {
  std::ranges::replace(flag, '-', '_');
  std::ranges::transform(flag, flag.begin(), [](unsigned char c) { return std::toupper(c); });
  return "TUTTI_" + flag;
}

// "auto, shm or tcp"
std::string listed(const std::vector<std::string_view>& words) {
  std::string text(words.front());
  for (std::size_t i = 1; i < words.size(); ++i) {
    text += i + 1 < words.size() ? ", " : " or ";
    text += words[i];
  }
  return text;
}

// What the value must be and is not; empty if it is right.
std::string broken_rule(const Setting& setting, Number auto value) {
  const auto& range = std::get<Range>(setting.check);
  const auto number = static_cast<double>(value);
  if (range.holds(number)) return {};
  if (!range.rule.empty()) return std::string(range.rule);
  if (number < range.least) return fmt::format("at least {:.0f}", range.least);
  if (number > range.most) return fmt::format("at most {:.0f}", range.most);
  return "a number";
}

std::string broken_rule(const Setting& setting, const std::string& value) {
  const auto* allowed = std::get_if<OneOf>(&setting.check);
  if (allowed == nullptr || std::ranges::find(allowed->words, value) != allowed->words.end()) return {};
  return allowed->rule.empty() ? listed(allowed->words) : std::string(allowed->rule);
}

std::string broken_rule(const Setting&, bool) {
  return {};
}

// Every setting is saved as JSON.
void require_utf8(const Setting& setting, const std::string& value) {
  try {
    (void)nlohmann::json(value).dump();
  } catch (const nlohmann::json::exception&) {
    throw ConfigError(fmt::format("--{} must be UTF-8 text", setting.flag));
  }
}

}  // namespace

bool Range::holds(double value) const {
  // Infinity is not below infinity, and NaN not below anything.
  return (value > above && value >= least && value <= most && value < below) || (or_zero && value == 0);
}

Setting::Setting(std::string_view key, MemberPointer member, decltype(check) check, std::string_view help,
                 Spelling spelling)
    : key(key),
      flag(spelling.flag.empty() ? flag_of(std::string(key)) : std::string(spelling.flag)),
      variable(spelling.variable.empty() ? variable_of(flag) : std::string(spelling.variable)),
      bytes(spelling.bytes),
      letter(spelling.letter),
      member(member),
      check(std::move(check)),
      help(help) {}

void validate(const Setting& setting, const TrainConfig& config) {
  if (const auto* text = std::get_if<std::string TrainConfig::*>(&setting.member)) {
    require_utf8(setting, config.*(*text));
  }
  const auto rule =
      std::visit([&](auto member) { return broken_rule(setting, config.*member); }, setting.member);
  if (!rule.empty())
    throw ConfigError(fmt::format("--{} must be {}, not {}", setting.flag, rule, text_of(setting, config)));
}

void copy(const Setting& setting, const TrainConfig& from, TrainConfig& to) {
  std::visit([&](auto member) { to.*member = from.*member; }, setting.member);
}

std::string text_of(const Setting& setting, const TrainConfig& config) {
  constexpr std::uint64_t kMega = 1 << 20;
  return std::visit(
      [&](auto member) {
        const auto& value = config.*member;
        if constexpr (std::same_as<decltype(member), std::uint64_t TrainConfig::*>) {
          if (setting.bytes && value >= kMega && value % kMega == 0) return fmt::format("{}M", value / kMega);
        }
        return fmt::format("{}", value);
      },
      setting.member);
}

}  // namespace tutti::config
