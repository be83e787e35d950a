#include "checkpoint/strict_json.h"

#include <set>
#include <vector>

#include "base/error.h"
#include "checkpoint/tensor_view.h"

namespace tutti::checkpoint {

using nlohmann::json;

void reject(const std::string& where, const std::string& reason) {
  throw DataError(fmt::format("{}: {}", where, reason));
}

json parse_strict(std::string_view text, const std::string& where, std::size_t offset) {
  // The library's dump recurses, so depth must be bounded before anything is printed.
  constexpr int kDeepest = 64;
  std::vector<std::set<std::string>> keys_of_open_objects;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kDeepest) reject(where, fmt::format("JSON nested deeper than {}", kDeepest));
    if (event == json::parse_event_t::object_start) keys_of_open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) keys_of_open_objects.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_of_open_objects.back().insert(key).second) {
        reject(where, fmt::format("key {} appears twice", quoted(key)));
      }
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::parse_error& e) {
    reject(where, fmt::format("not JSON at byte {}", offset + e.byte - (e.byte > 0 ? 1 : 0)));
  } catch (const json::exception&) {
    reject(where, "JSON holds a number out of range");
  }
}

}  // namespace tutti::checkpoint
