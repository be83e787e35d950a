// Settings as a file has them.
#include <nlohmann/json.hpp>

#include "base/fuzz_input.h"
#include "config/emulation.h"
#include "config/train_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::try_to([&] { config::parse_emulation(text); });
  return fuzz::try_to([&] {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object()) return;
    config::TrainConfig c;
    try {
      c = json.get<config::TrainConfig>();
    } catch (const nlohmann::json::exception&) {
      return;  // the callers say which file
    }
    const nlohmann::json again = c;
    TUTTI_CHECK(again.get<config::TrainConfig>() == c || again.dump().find("null") != std::string::npos);
    config::parse_slow(c);
    config::parse_partitions(c);
    config::parse_until(c);
    config::validate(c);
  });
}
