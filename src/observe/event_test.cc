#include "observe/event.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "base/scratch_folder.h"
#include "observe/jsonl_sink.h"

namespace tutti::observe {
namespace {

TEST(Event, EveryKindSurvivesTheWayThroughJson) {
  const Event events[] = {RunStarted{1, 2, 3, "ring"},
                          StepDone{.step = 7, .loss = 0.5},
                          Evaluated{.step = 3, .epoch = 1, .samples = 9, .figures = {{"accuracy", 0.9}}},
                          CheckpointSaved{5, "a"},
                          Resumed{5, "b"},
                          Note{"c"}};
  for (const Event& e : events) {
    const auto json = to_json(e);
    EXPECT_EQ(from_json(json).index(), e.index());
    EXPECT_EQ(to_json(from_json(json)), json);
  }
}

TEST(Event, NotANumberSurvivesAsNotANumber) {
  const auto json = nlohmann::json::parse(to_json(Evaluated{.figures = {{"auc", std::nan("")}}}).dump());
  EXPECT_TRUE(std::isnan(std::get<Evaluated>(from_json(json)).figures.at("auc")));
}

TEST(Event, FiguresStandBesideTheStep) {
  const auto json = to_json(Evaluated{.step = 3, .figures = {{"loss", 0.5}, {"perplexity", 1.6}}});
  EXPECT_EQ(json["loss"], 0.5);
  EXPECT_EQ(json["perplexity"], 1.6);
  EXPECT_EQ(std::get<Evaluated>(from_json(json)).figures.size(), 2U);
}

TEST(Event, UnknownKindIsRefused) {
  EXPECT_THROW(from_json({{"event", "party"}}), nlohmann::json::exception);
  EXPECT_THROW(from_json({{"text", "x"}}), nlohmann::json::exception);
}

TEST(JsonlSink, WritesOneLineAnEventAndAppends) {
  const ScratchFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  JsonlSink(path).emit(Note{"one"});
  JsonlSink(path).emit(Note{"two\nlines"});
  EXPECT_EQ(read_file(path),
            "{\"event\":\"note\",\"text\":\"one\"}\n{\"event\":\"note\",\"text\":\"two\\nlines\"}\n");
}

}  // namespace
}  // namespace tutti::observe
