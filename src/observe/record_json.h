// Structs as JSON objects: a struct lists its keys once, in a table that writing and reading both walk.
//
//   template <>
//   inline constexpr auto kKeys<StepMs> =
//       std::tuple(Key{"median", &StepMs::median, Presence::needed}, Key{"p90", &StepMs::p90});
//
// Fields may be such structs, lists of them, numbers, strings and std::optional of all these. Whole numbers
// are counts: none is below 0. JSON has no NaN and no infinity: they are written as null, and a number that
// reads null is NaN.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <concepts>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tutti::observe {

// When a key is there. Reading leaves a field whose key is missing as it is, unless the key is needed.
enum class Presence {
  usual,         // always; of a std::optional where it has a value
  needed,        // always, and reading insists on it
  null_if_none,  // always; a std::optional without a value is null
  unless_empty,  // where the list is not empty
};

template <typename Record, typename Value>
struct Key {
  const char* name;
  Value Record::*member;
  Presence presence = Presence::usual;
};
template <typename Record, typename Value>
Key(const char*, Value Record::*, Presence = Presence::usual) -> Key<Record, Value>;

// Keys of another struct that stand beside the record's own, all of them or none. Whether they are there is
// seen by the first of its table.
template <typename Record, typename Other>
struct Among {
  std::optional<Other> Record::*member;
};
template <typename Record, typename Other>
Among(std::optional<Other> Record::*) -> Among<Record, Other>;

// All keys that begin so, a number or null each.
template <typename Record>
struct Prefixed {
  const char* prefix;
  std::map<std::string, std::optional<double>> Record::*member;
};
template <typename Record>
Prefixed(const char*, std::map<std::string, std::optional<double>> Record::*) -> Prefixed<Record>;

// To be specialised: a std::tuple of Key, Among and Prefixed.
template <typename Record>
inline constexpr auto kKeys = nullptr;

template <typename Record>
nlohmann::json write_record(const Record& record);

// `where` comes before the names of keys in what is said: "emulated.per_host[2].". Throws DataError: which
// key is missing, or of another kind than its field.
template <typename Record>
void read_record(const nlohmann::json& object, Record& record, const std::string& where = "");

// How the two are done.
namespace record_json {

template <typename T>
concept IsRecord = !std::same_as<decltype(kKeys<T>), const std::nullptr_t>;

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsList = false;
template <typename T>
inline constexpr bool kIsList<std::vector<T>> = true;

// How often each whole number was seen. In JSON the numbers are keys, and those are strings.
using Histogram = std::map<std::int64_t, std::int64_t>;

template <typename T>
nlohmann::json json_of(const T& value) {
  if constexpr (IsRecord<T>) {
    return write_record(value);
  } else if constexpr (kIsOptional<T>) {
    return value ? json_of(*value) : nlohmann::json(nullptr);
  } else if constexpr (kIsList<T>) {
    auto list = nlohmann::json::array();
    for (const auto& one : value) list.push_back(json_of(one));
    return list;
  } else if constexpr (std::same_as<T, Histogram>) {
    auto object = nlohmann::json::object();
    for (const auto& [number, count] : value) object[std::to_string(number)] = count;
    return object;
  } else {
    return value;
  }
}

// A value as far as it is short, else its kind.
inline std::string shown(const nlohmann::json& json) {
  return json.is_object()   ? "an object"
         : json.is_array()  ? "an array"
         : json.is_string() ? "a string"
                            : json.dump();
}

[[noreturn]] inline void refuse(const std::string& where, std::string_view wanted,
                                const nlohmann::json& found) {
  throw DataError(fmt::format("'{}' is {}, not {}", where, shown(found), wanted));
}

inline void require(bool fits, const std::string& where, const char* wanted, const nlohmann::json& found) {
  if (!fits) refuse(where, wanted, found);
}

template <std::integral T>
void read_whole(const nlohmann::json& json, T& value, const std::string& where) {
  // Of two kinds in memory: what was parsed and is not negative is unsigned, what a program has made may be
  // signed.
  const bool counts =
      json.is_number_integer() && (json.is_number_unsigned() || json.get<std::int64_t>() >= 0);
  if (!counts || !std::in_range<T>(json.get<std::uint64_t>())) {
    refuse(where, fmt::format("a whole number from 0 to {}", std::numeric_limits<T>::max()), json);
  }
  json.get_to(value);
}

inline void read_histogram(const nlohmann::json& json, Histogram& value, const std::string& where) {
  require(json.is_object(), where, "an object", json);
  value.clear();
  for (const auto& [key, count] : json.items()) {
    std::int64_t number = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), number);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size()) {
      throw DataError(fmt::format("'{}' has the key '{}', which is no whole number", where, key));
    }
    read_whole(count, value[number], fmt::format("{}.{}", where, key));
  }
}

template <typename T>
void read_value(const nlohmann::json& json, T& value, const std::string& where) {
  if constexpr (IsRecord<T>) {
    require(json.is_object(), where, "an object", json);
    read_record(json, value, where + ".");
  } else if constexpr (kIsOptional<T>) {
    json.is_null() ? value.reset() : read_value(json, value.emplace(), where);
  } else if constexpr (kIsList<T>) {
    require(json.is_array(), where, "an array", json);
    value.clear();
    for (const auto& one : json) {
      const auto here = fmt::format("{}[{}]", where, value.size());
      read_value(one, value.emplace_back(), here);
    }
  } else if constexpr (std::same_as<T, Histogram>) {
    read_histogram(json, value, where);
  } else if constexpr (std::same_as<T, nlohmann::json>) {
    require(json.is_object(), where, "an object", json);
    value = json;
  } else if constexpr (std::same_as<T, bool>) {
    require(json.is_boolean(), where, "true or false", json);
    json.get_to(value);
  } else if constexpr (std::integral<T>) {
    read_whole(json, value, where);
  } else if constexpr (std::floating_point<T>) {
    require(json.is_number() || json.is_null(), where, "a number", json);
    value = json.is_null() ? std::numeric_limits<T>::quiet_NaN() : json.get<T>();
  } else {
    require(json.is_string(), where, "a string", json);
    json.get_to(value);
  }
}

template <typename Record, typename Value>
void write(nlohmann::json& object, const Record& record, const Key<Record, Value>& key) {
  const Value& value = record.*key.member;
  if constexpr (kIsOptional<Value>) {
    if (!value && key.presence != Presence::null_if_none) return;
  }
  if constexpr (kIsList<Value>) {
    if (value.empty() && key.presence == Presence::unless_empty) return;
  }
  object[key.name] = json_of(value);
}

template <typename Record, typename Value>
void read(const nlohmann::json& object, Record& record, const Key<Record, Value>& key,
          const std::string& where) {
  const auto found = object.find(key.name);
  const bool needed = key.presence == Presence::needed;
  if (found != object.end() && !(needed && found->is_null())) {
    read_value(*found, record.*key.member, where + key.name);
  } else if (needed) {
    throw DataError(fmt::format("'{}{}' is not there", where, key.name));
  }
}

template <typename Record, typename Other>
void write(nlohmann::json& object, const Record& record, const Among<Record, Other>& among) {
  if (record.*among.member) object.update(write_record(*(record.*among.member)));
}

template <typename Record, typename Other>
void read(const nlohmann::json& object, Record& record, const Among<Record, Other>& among,
          const std::string& where) {
  if (!object.contains(std::get<0>(kKeys<Other>).name)) return;
  read_record(object, (record.*among.member).emplace(), where);
}

template <typename Record>
void write(nlohmann::json& object, const Record& record, const Prefixed<Record>& all) {
  for (const auto& [name, value] : record.*all.member) object[all.prefix + name] = json_of(value);
}

template <typename Record>
void read(const nlohmann::json& object, Record& record, const Prefixed<Record>& all,
          const std::string& where) {
  const std::string_view prefix = all.prefix;
  for (const auto& [key, value] : object.items()) {
    if (key.starts_with(prefix)) {
      read_value(value, (record.*all.member)[key.substr(prefix.size())], where + key);
    }
  }
}

}  // namespace record_json

template <typename Record>
nlohmann::json write_record(const Record& record) {
  auto object = nlohmann::json::object();
  std::apply([&](const auto&... entry) { (record_json::write(object, record, entry), ...); }, kKeys<Record>);
  return object;
}

template <typename Record>
void read_record(const nlohmann::json& object, Record& record, const std::string& where) {
  std::apply([&](const auto&... entry) { (record_json::read(object, record, entry, where), ...); },
             kKeys<Record>);
}

}  // namespace tutti::observe
