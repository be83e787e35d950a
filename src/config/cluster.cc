#include "config/cluster.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"

namespace tutti::config {
namespace {

using nlohmann::json;

// In the order of ranks.
struct Role {
  const char* name;
  bool serves;
};
constexpr Role kRoles[] = {{"chief", false}, {"worker", false}, {"ps", true}};

struct Who {
  std::string type;
  int index = -1;
};

std::optional<int> number_of(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

Cluster::Task task_of(const json& address, const std::string& where) {
  const auto text = address.is_string() ? address.get<std::string>() : address.dump();
  const auto colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : number_of(text.substr(colon + 1));
  if (!address.is_string() || colon == 0 || !port || *port < 1 || *port > 65535)
    throw ConfigError(fmt::format("{}: {} is no HOST:PORT", where, text));
  return {text.substr(0, colon), *port};
}

Who who_from_text(const std::string& task, const std::string& where) {
  const auto colon = task.rfind(':');
  const auto index = colon == std::string::npos ? std::nullopt : number_of(task.substr(colon + 1));
  if (!index)
    throw ConfigError(fmt::format("{}: --task must be ROLE:NUMBER, as worker:1, not '{}'", where, task));
  return {task.substr(0, colon), *index};
}

Who who_from_json(const json& description, const std::string& where) {
  const auto task = description.value("task", json());
  if (!task.is_object() || !task.contains("type") || !task["type"].is_string() || !task.contains("index"))
    throw ConfigError(
        fmt::format(R"({}: says no "task" with "type" and "index"; --task ROLE:NUMBER does, too)", where));
  // TensorFlow takes the index as a number and as a text.
  const auto& index = task["index"];
  const auto number = number_of(index.is_string() ? index.get<std::string>() : index.dump());
  if (!number)
    throw ConfigError(fmt::format("{}: the task's index is {}, which is no number", where, index.dump()));
  return {task["type"], *number};
}

}  // namespace

Cluster parse_cluster(const std::string& text, const std::string& task, const std::string& where) {
  const auto description = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!description.is_object() || !description.value("cluster", json()).is_object())
    throw ConfigError(fmt::format("{}: must be JSON with a \"cluster\" of HOST:PORT lists by role", where));
  const auto& roles = description["cluster"];
  const Who who = task.empty() ? who_from_json(description, where) : who_from_text(task, where);
  Cluster cluster;
  std::optional<int> rank;
  for (const Role& role : kRoles) {
    const auto tasks = roles.value(role.name, json::array());
    if (!tasks.is_array())
      throw ConfigError(fmt::format("{}: \"{}\" must be a list of HOST:PORT", where, role.name));
    const auto count = static_cast<int>(tasks.size());
    if (who.type == role.name && who.index < count) rank = static_cast<int>(cluster.tasks.size()) + who.index;
    for (const auto& address : tasks) cluster.tasks.push_back(task_of(address, where));
    if (role.serves) cluster.servers += count;
  }
  if (static_cast<int>(cluster.tasks.size()) == cluster.servers)
    throw ConfigError(fmt::format("{}: names no worker and no chief", where));
  if (!rank)
    throw ConfigError(fmt::format("{}: there is no task {}:{} among its chief, workers and ps", where,
                                  who.type, who.index));
  cluster.rank = *rank;
  return cluster;
}

}  // namespace tutti::config
