// Every setting of a run, once: its key in JSON, flag, environment variable, member of TrainConfig, check,
// help and group. JSON, `validate` (train_config.h), the command line and configuration files (flags.h) and
// docs/settings.md are made from this table. One more setting is a member with its default in TrainConfig and
// a row in settings.cc.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/train_config.h"

namespace tutti::config {

// Of --wire, wherever it is a flag.
inline constexpr const char* kWireHelp =
    "of TCP connections: auth (nobody on the way changes a message unseen) | encrypt (nor reads it) | plain "
    "(within one host alone) | auto: auth between hosts, plain within one";

// Who reads a setting: the headings of --help and docs/settings.md, in this order.
enum class Group {
  network,
  data,
  own_data,
  training,
  optimizer,
  strategy,
  hosts,
  joining,
  emulation,
  machine,
  outcome
};
std::string_view title_of(Group group);

// The numbers that a setting may be; never NaN or infinite.
struct Range {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  double above = -kInfinity;
  double least = -kInfinity;
  double most = kInfinity;
  double below = kInfinity;
  bool or_zero = false;        // 0 is allowed, too: it stands for "not said", "none" or "choose"
  std::string_view rule = {};  // "must be <rule>"; if empty: at least `least`, at most `most`, or a number
  // The least that a flag, a variable or a file may say; less is refused as it is read. Below it lies what
  // stands for "not said" in TrainConfig (0 steps, a momentum of -1), or what an unsigned number cannot hold.
  std::optional<int> said_least = {};

  bool holds(double value) const;
};

// The words that a setting may be.
struct OneOf {
  std::vector<std::string_view> words;
  std::string_view rule = {};  // as in Range; if empty: the words
};

// How a setting is written, where that does not follow from its key.
struct Spelling {
  std::string_view flag = {};      // if empty: the key with dashes for underscores
  std::string_view variable = {};  // if empty: TUTTI_<FLAG>
  bool bytes = false;              // "1M" is a number, too
  char letter = 0;                 // a flag of one letter beside it, if any
};

using MemberPointer =
    std::variant<bool TrainConfig::*, int TrainConfig::*, std::int64_t TrainConfig::*,
                 std::uint64_t TrainConfig::*, double TrainConfig::*, std::string TrainConfig::*>;

template <typename T>
concept Number = std::same_as<T, int> || std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t> ||
    std::same_as<T, double>;

// Of a run that is resumed.
enum class OnResume {
  as_it_was,  // or it would not be the run that it goes on
  may_change,
  may_change_if_reproducible,  // with --reproducible no bit depends on it
};

// One row. Its constructors say which check fits which type.
struct Setting {
  std::string key;       // in JSON
  std::string flag;      // without its two dashes; a configuration file has the same word
  std::string variable;  // of the environment
  bool bytes;            // "1M" is a number, too
  char letter;           // a flag of one letter beside it; 0: none
  MemberPointer member;  // has the default
  std::variant<std::monostate, Range, OneOf> check;
  std::string_view help;
  OnResume on_resume = OnResume::as_it_was;
  Group group = {};  // set by settings()

  Setting(std::string_view key, bool TrainConfig::*member, std::string_view help)
      : Setting(key, MemberPointer(member), std::monostate(), help, {}) {}
  Setting(std::string_view key, std::string TrainConfig::*member, std::string_view help,
          Spelling spelling = {})
      : Setting(key, MemberPointer(member), std::monostate(), help, spelling) {}
  Setting(std::string_view key, std::string TrainConfig::*member, OneOf words, std::string_view help)
      : Setting(key, MemberPointer(member), std::move(words), help, {}) {}
  template <Number T>
  Setting(std::string_view key, T TrainConfig::*member, Range range, std::string_view help,
          Spelling spelling = {})
      : Setting(key, MemberPointer(member), range, help, spelling) {}

 private:
  Setting(std::string_view key, MemberPointer member, decltype(check) check, std::string_view help,
          Spelling spelling);
};

// The table, group by group. Made at the first call; any thread may call it.
const std::vector<Setting>& settings();

// The setting's own check; what depends on several settings is checked by validate(config). Throws
// ConfigError, "--flag must be ..., not ...".
void validate(const Setting& setting, const TrainConfig& config);

void copy(const Setting& setting, const TrainConfig& from, TrainConfig& to);

// The value as one would write it after the flag.
std::string text_of(const Setting& setting, const TrainConfig& config);

// docs/settings.md: the table with its defaults, for users.
std::string settings_page();

}  // namespace tutti::config
