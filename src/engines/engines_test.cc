#include "engines/engines.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace tutti::engines {
namespace {

TEST(Engines, AutoIsTheFirstWhichCanAlwaysBeUsed) {
  EXPECT_EQ(&find_engine("auto"), &engines().front());
  EXPECT_EQ(find_engine("auto").name, "native");
}

TEST(Engines, EachHasANameAndASummaryOfItsOwn) {
  std::set<std::string_view> names;
  for (const EngineInfo& e : engines()) {
    EXPECT_TRUE(names.insert(e.name).second) << e.name;
    EXPECT_FALSE(e.summary.empty()) << e.name;
    const bool usable = e.why_not == nullptr || e.why_not().empty();
    EXPECT_TRUE(!usable || e.make != nullptr) << e.name;
  }
}

TEST(Engines, AnUnknownNameIsRefusedWithThoseThatThereAre) {
  try {
    find_engine("steam");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("'steam'; there are auto | native"), std::string::npos) << e.what();
  }
}

TEST(Engines, OneThatCannotBeUsedHereSaysWhy) {
  for (const EngineInfo& e : engines()) {
    const std::string why_not = e.why_not == nullptr ? "" : e.why_not();
    EXPECT_EQ(&engine_named(e.name), &e) << "of which one may know, all the same";
    if (why_not.empty()) continue;
    try {
      find_engine(e.name);
      ADD_FAILURE() << e.name;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(why_not), std::string::npos) << error.what();
    }
  }
}

TEST(Engines, OurAlgorithmsAreForOurEngine) {
  EXPECT_NO_THROW(require_fits(engines().front(), "ring"));
  for (const EngineInfo& e : engines()) {
    EXPECT_NO_THROW(require_fits(e, "auto"));
    if (e.takes_algorithms) continue;
    EXPECT_THROW(require_fits(e, "ring"), ConfigError) << e.name;
  }
}

}  // namespace
}  // namespace tutti::engines
