#include "config/hosts.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/error.h"

namespace tutti::config {
namespace {

constexpr int kMostSlots = 1024;

// A name goes to ssh as an argument: one that begins with a dash would be an option, one with a blank or a
// control character is none.
bool is_name(const std::string& name) {
  if (name.empty() || name.front() == '-') return false;
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@:%[]") ==
         std::string::npos;
}

int parse_slots(std::string_view text, const std::string& where) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1 || slots > kMostSlots) {
    throw ConfigError(
        fmt::format("{}: '{}' is no number of processes between 1 and {}", where, text, kMostSlots));
  }
  return slots;
}

Host make_host(const std::string& name, int slots, const std::string& where) {
  if (!is_name(name)) throw ConfigError(fmt::format("{}: '{}' is no name of a host", where, name));
  return {name, slots};
}

// "host:4" or "host". Of an address with several colons only what stands behind a bracket is a number.
Host parse_host(const std::string& text, const std::string& where) {
  const auto colon = text.rfind(':');
  const bool bare_address = colon != std::string::npos && text.find(':') != colon && text[colon - 1] != ']';
  if (colon == std::string::npos || bare_address) return make_host(text, 1, where);
  return make_host(text.substr(0, colon), parse_slots(text.substr(colon + 1), where), where);
}

// What may stand behind a host's name in a file of Open MPI's: "slots=4 max_slots=8". We never start more
// than slots, so the limit is only held against them.
Host with_slots(const std::string& name, std::istringstream& words, const std::string& where) {
  if (parse_host(name, where).name != name)
    throw ConfigError(
        fmt::format("{}: '{}' says how many processes, and so do the words behind it", where, name));
  std::optional<int> slots;
  std::optional<int> most;
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    const auto key = word.substr(0, equals);
    auto& value = key == "slots" ? slots : most;
    const bool known = key == "slots" || key == "max_slots" || key == "max-slots";
    if (!known || equals == std::string::npos || value)
      throw ConfigError(fmt::format("{}: must be HOST, HOST:N or HOST slots=N max_slots=M", where));
    value = parse_slots(word.substr(equals + 1), where);
  }
  if (most && slots.value_or(1) > *most)
    throw ConfigError(fmt::format("{}: slots={} are more than max_slots={}", where, *slots, *most));
  return make_host(name, slots.value_or(1), where);
}

void refuse_twice(const std::vector<Host>& hosts, const std::string& where) {
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (hosts[i].name == hosts[j].name && hosts[i].name != "localhost")
        throw ConfigError(
            fmt::format("{}: host {} is there twice; say its processes in one number", where, hosts[i].name));
    }
  }
}

}  // namespace

std::vector<Host> parse_hosts(const std::string& text) {
  std::vector<Host> hosts;
  if (text.empty()) return hosts;
  const std::string where = fmt::format("--hosts {}", text);
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) hosts.push_back(parse_host(part, where));
  if (text.back() == ',') throw ConfigError(fmt::format("{}: ends with a comma", where));
  refuse_twice(hosts, where);
  return hosts;
}

std::vector<Host> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw ConfigError(fmt::format("--hostfile {}: cannot be read", path));
  std::vector<Host> hosts;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string where = fmt::format("--hostfile {}, line {}", path, number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    if (!(words >> name)) continue;
    const bool alone = (words >> std::ws).eof();
    hosts.push_back(alone ? parse_host(name, where) : with_slots(name, words, where));
  }
  if (hosts.empty()) throw ConfigError(fmt::format("--hostfile {}: names no host", path));
  refuse_twice(hosts, fmt::format("--hostfile {}", path));
  return hosts;
}

std::vector<Host> named_hosts(const std::string& hosts, const std::string& hostfile) {
  return hostfile.empty() ? parse_hosts(hosts) : read_hostfile(hostfile);
}

std::string text_of(const std::vector<Host>& hosts) {
  std::string text;
  for (const Host& h : hosts) text += fmt::format("{}{}:{}", text.empty() ? "" : ",", h.name, h.slots);
  return text;
}

int slots_of(const std::vector<Host>& hosts) {
  int slots = 0;
  for (const Host& h : hosts) slots += h.slots;
  return slots;
}

}  // namespace tutti::config
