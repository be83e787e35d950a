// Holds for every row of the table, so that a new one is tested by being there.
#include "config/settings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/scratch_folder.h"
#include "config/flags.h"

namespace tutti::config {
namespace {

// What the command line makes of these arguments and, if one is named, of a configuration file.
TrainConfig read(std::vector<std::string> arguments, const std::string& file = {}) {
  TrainConfig config;
  CLI::App app{"test"};
  add_train_flags(app, config);
  std::ranges::reverse(arguments);
  app.parse(arguments);
  if (!file.empty()) apply_config_file(app, file);
  return config;
}

nlohmann::json value_of(const Setting& setting, const TrainConfig& config) {
  return std::visit([&](auto member) -> nlohmann::json { return config.*member; }, setting.member);
}

// Some value that is not the default, and that a flag may say.
void change(const Setting& setting, TrainConfig& config) {
  std::visit(
      [&](auto member) {
        auto& value = config.*member;
        using T = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::same_as<T, bool>) {
          value = !value;
        } else if constexpr (std::same_as<T, std::string>) {
          value += "other";
        } else {
          value += 2;  // momentum's -1 means that it was not said; 1 may be said
        }
      },
      setting.member);
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing was refused";
}

// Becomes whatever a member of an aggregate is.
struct Anything {
  template <typename T>
  operator T() const;
};

template <typename T, std::size_t... I>
constexpr std::size_t count_members(std::index_sequence<I...>) {
  if constexpr (requires { T{(static_cast<void>(I), Anything{})..., Anything{}}; }) {
    return count_members<T>(std::make_index_sequence<sizeof...(I) + 1>());
  } else {
    return sizeof...(I);
  }
}

TEST(Settings, EveryMemberOfTheStructHasOneRow) {
  EXPECT_EQ(settings().size(), count_members<TrainConfig>(std::index_sequence<>()))
      << "a member of TrainConfig without a row in settings.cc is neither read nor saved";
  for (const Setting& a : settings()) {
    for (const Setting& b : settings())
      EXPECT_TRUE(&a == &b || a.member != b.member) << a.key << " " << b.key;
  }
}

TEST(Settings, NoTwoShareKeyFlagOrVariable) {
  std::set<std::string> keys;
  std::set<std::string> flags;
  std::set<std::string> variables = {"TUTTI_DATA", "TUTTI_JOB_FD"};  // environment.h
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key;
    EXPECT_TRUE(flags.insert(setting.flag).second) << setting.flag;
    EXPECT_TRUE(variables.insert(setting.variable).second) << setting.variable;
    EXPECT_FALSE(setting.help.empty()) << setting.key;
  }
}

TEST(Settings, EachSurvivesTheWayThroughJson) {
  for (const Setting& setting : settings()) {
    TrainConfig config;
    change(setting, config);
    nlohmann::json expected = TrainConfig{};
    expected[setting.key] = value_of(setting, config);
    EXPECT_NE(expected, nlohmann::json(TrainConfig{})) << setting.key;
    EXPECT_EQ(nlohmann::json(config), expected);
    EXPECT_EQ(expected.get<TrainConfig>(), config) << setting.key;
  }
}

TEST(Settings, EachIsReadFromFlagEnvironmentAndFile) {
  const ScratchFolder folder;
  const auto file = folder.path() / "c.toml";
  for (const Setting& setting : settings()) {
    TrainConfig config;
    change(setting, config);
    const bool is_switch = std::holds_alternative<bool TrainConfig::*>(setting.member);
    const auto text = text_of(setting, config);

    EXPECT_EQ(read({"--" + setting.flag + (is_switch ? "" : "=" + text)}), config) << setting.flag;

    ::setenv(setting.variable.c_str(), text.c_str(), 1);
    EXPECT_EQ(read({}), config) << setting.variable;
    ::unsetenv(setting.variable.c_str());

    const bool quoted = std::holds_alternative<std::string TrainConfig::*>(setting.member);
    write_file_atomically(
        file, fmt::format(fmt::runtime(quoted ? "{} = \"{}\"\n" : "{} = {}\n"), setting.flag, text));
    EXPECT_EQ(read({}, file), config) << setting.flag;
  }
}

TEST(Settings, EachDefaultIsValid) {
  EXPECT_NO_THROW(validate(TrainConfig{}));
}

// Values just outside of a range, as far as the type has them.
template <Number T>
std::vector<T> outside(const Range& range) {
  std::vector<T> values;
  for (const double value : {range.above, range.least - 1, range.most + 1, range.below,
                             std::numeric_limits<double>::quiet_NaN()}) {
    const bool representable =
        std::same_as<T, double> ||
        (std::isfinite(value) && value >= static_cast<double>(std::numeric_limits<T>::min()));
    const bool zero = range.or_zero && value == 0;
    if (representable) values.push_back(static_cast<T>(zero ? value - 1 : value));
  }
  return values;
}

TEST(Settings, EachRefusesWhatIsOutsideOfItsRange) {
  for (const Setting& setting : settings()) {
    std::visit(
        [&](auto member) {
          using T = std::remove_cvref_t<decltype(std::declval<TrainConfig>().*member)>;
          if constexpr (Number<T>) {
            for (const T value : outside<T>(std::get<Range>(setting.check))) {
              TrainConfig config;
              config.*member = value;
              const auto said = refusal([&] { validate(config); });
              EXPECT_TRUE(said.starts_with("--" + setting.flag + " must be ")) << said;
              EXPECT_TRUE(said.ends_with(fmt::format(", not {}", value))) << said;
            }
          }
        },
        setting.member);
  }
}

TEST(Settings, EachRefusesOtherWordsThanItsOwn) {
  for (const Setting& setting : settings()) {
    const auto* member = std::get_if<std::string TrainConfig::*>(&setting.member);
    if (member == nullptr) continue;
    TrainConfig config;
    config.*(*member) = "\xff";
    EXPECT_EQ(refusal([&] { validate(config); }), "--" + setting.flag + " must be UTF-8 text");
    const auto* allowed = std::get_if<OneOf>(&setting.check);
    if (allowed == nullptr) continue;
    for (const std::string_view word : allowed->words) {
      config.*(*member) = word;
      EXPECT_NO_THROW(validate(setting, config)) << word;
    }
    config.*(*member) = "pigeon";
    const auto said = refusal([&] { validate(config); });
    EXPECT_TRUE(said.starts_with("--" + setting.flag + " must be " + std::string(allowed->words.front())))
        << said;
    EXPECT_TRUE(said.ends_with(", not pigeon")) << said;
  }
}

TEST(Settings, WhatStandsForNotSaidCannotBeSaid) {
  for (const Setting& setting : settings()) {
    const auto* range = std::get_if<Range>(&setting.check);
    if (range == nullptr || !range->said_least) continue;
    const auto less = *range->said_least - 1;
    EXPECT_EQ(refusal([&] { read({fmt::format("--{}={}", setting.flag, less)}); }),
              fmt::format("--{}: must be at least {}, not {}", setting.flag, *range->said_least, less));
  }
}

TEST(Settings, RulesAreSaidInWords) {
  const auto said = [](auto set) {
    TrainConfig config;
    set(config);
    return refusal([&] { validate(config); });
  };
  EXPECT_EQ(said([](auto& c) { c.workers = 2000; }), "--workers must be at most 1024, not 2000");
  EXPECT_EQ(said([](auto& c) { c.steps = -3; }), "--steps must be at least 1, not -3");
  EXPECT_EQ(said([](auto& c) { c.beta1 = NAN; }), "--beta1 must be a number, not nan");
  EXPECT_EQ(said([](auto& c) { c.lr = 0; }), "--lr must be a positive number, not 0");
  EXPECT_EQ(said([](auto& c) { c.heartbeat_timeout_s = 0.5; }),
            "--heartbeat-timeout must be 0 (none) or between 1 and 86400 seconds, not 0.5");
  EXPECT_EQ(said([](auto& c) { c.transport = "pigeon"; }),
            "--transport must be auto, shm, tcp or mpi, not pigeon");
  EXPECT_EQ(said([](auto& c) { c.on_nonfinite = ""; }), "--on-nonfinite must be stop or skip, not ");
}

TEST(Settings, OnlyWhatWasSaidIsLaidOver) {
  TrainConfig given;
  CLI::App app{"test"};
  add_train_flags(app, given);
  app.parse("--pace 5 --timeout 7 --no-sparse");
  TrainConfig saved;
  saved.batch = 9;
  saved.timeout_s = 8;
  saved.heartbeat_timeout_s = 4;
  TrainConfig expected = saved;
  expected.pace_ms = 5;
  expected.timeout_s = 7;
  expected.no_sparse = true;
  lay_over(app, given, saved);
  EXPECT_EQ(saved, expected);
}

// A new setting must be as it was unless somebody has thought about it.
TEST(Settings, ThatAResumedRunMayChangeAreFew) {
  std::set<std::string> changeable;
  for (const Setting& setting : settings()) {
    const bool all_may_change = setting.group == Group::outcome || setting.group == Group::joining;
    if (setting.on_resume == OnResume::may_change && !all_may_change) changeable.insert(setting.key);
    if (all_may_change) {
      EXPECT_EQ(setting.on_resume, OnResume::may_change) << setting.key;
    }
  }
  EXPECT_EQ(changeable, (std::set<std::string>{"data",
                                               "test_data",
                                               "steps",
                                               "epochs",
                                               "on_nonfinite",
                                               "colocate",
                                               "local_aggregation",
                                               "no_local_aggregation",
                                               "measure_links",
                                               "device_tflops",
                                               "slow",
                                               "flip_bit",
                                               "emulate",
                                               "device",
                                               "wire",
                                               "engine",
                                               "timeout_s",
                                               "hosts",
                                               "hostfile",
                                               "ssh_config",
                                               "remote_program",
                                               "heartbeat_timeout_s"}));
}

// UPDATE_PAGES=1 writes the page instead.
TEST(Settings, ThePageForUsersIsThatOfTheTable) {
  const std::filesystem::path page = TUTTI_SETTINGS_PAGE;
  if (std::getenv("UPDATE_PAGES") != nullptr) write_file_atomically(page, settings_page());
  EXPECT_EQ(read_file(page), settings_page()) << "UPDATE_PAGES=1 config_test writes " << page;
}

}  // namespace
}  // namespace tutti::config
