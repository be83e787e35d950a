#include "observe/event.h"

#include <cmath>
#include <limits>

namespace tutti::observe {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunStarted, first_step, total_steps, parameters, exchange)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepDone, step, total_steps, epoch, samples, loss, lr, gradient_norm,
                                   step_ms, compute_ms, exchange_ms, exposed_exchange_ms)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointSaved, step, path)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Resumed, step, path)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Note, text)

void to_json(nlohmann::json& json, const Evaluated& e) {
  json = e.figures;
  json["step"] = e.step;
  json["epoch"] = e.epoch;
  json["samples"] = e.samples;
}

void from_json(const nlohmann::json& json, Evaluated& e) {
  for (const auto& [key, value] : json.items()) {
    if (key == "step") {
      value.get_to(e.step);
    } else if (key == "epoch") {
      value.get_to(e.epoch);
    } else if (key == "samples") {
      value.get_to(e.samples);
    } else if (key != "event") {
      value.get_to(e.figures[key]);
    }
  }
}

namespace {

// In the order of the variant.
constexpr const char* kNames[] = {"start", "step", "evaluation", "checkpoint", "resume", "note"};
static_assert(std::size(kNames) == std::variant_size_v<Event>);

template <std::size_t I = 0>
Event read(const std::string& name, const nlohmann::json& json) {
  if constexpr (I == std::variant_size_v<Event>) {
    throw nlohmann::json::other_error::create(501, "unknown event '" + name + "'", &json);
  } else {
    if (name == kNames[I]) return json.get<std::variant_alternative_t<I, Event>>();
    return read<I + 1>(name, json);
  }
}

}  // namespace

nlohmann::json to_json(const Event& event) {
  nlohmann::json json = std::visit([](const auto& e) { return nlohmann::json(e); }, event);
  json["event"] = kNames[event.index()];
  return json;
}

Event from_json(const nlohmann::json& json) {
  // JSON has no NaN and no infinity; they travel as null.
  nlohmann::json filled = json;
  for (auto& value : filled) {
    if (value.is_null()) value = std::numeric_limits<double>::quiet_NaN();
  }
  return read(filled.at("event").get<std::string>(), filled);
}

}  // namespace tutti::observe
