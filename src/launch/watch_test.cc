#include "launch/watch.h"

#include <gtest/gtest.h>

namespace tutti::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kTick = milliseconds(100);
constexpr WatchLimits kLimits{.heartbeat = seconds(2), .progress = seconds(5), .start = seconds(10)};

// Glances at a process that changes as `next` says, for so long; what was found first, and when.
struct Found {
  std::optional<Finding> finding;
  Clock::duration after{};
};
Found watch(Watch& w, Clock::duration length, Vitals& v, const std::function<void(Vitals&, int tick)>& next) {
  Clock::duration now{};
  for (int tick = 1; now < length; ++tick) {
    next(v, tick);
    now += kTick;
    if (auto finding = w.look(v, kTick)) return {finding, now};
  }
  return {};
}

void lives_and_gets_on(Vitals& v, int /*tick*/) {
  ++v.beats;
  ++v.progress;
}

TEST(Watch, WhoLivesAndGetsOnIsLeftAlone) {
  Watch w(kLimits);
  Vitals v;
  EXPECT_FALSE(watch(w, seconds(60), v, lives_and_gets_on).finding);
}

TEST(Watch, FourBeatsASecondAreLifeEnough) {
  Watch w(kLimits);
  Vitals v;
  const auto found = watch(w, seconds(60), v, [](Vitals& x, int tick) {
    x.beats += tick % 3 == 0 ? 1 : 0;
    ++x.progress;
  });
  EXPECT_FALSE(found.finding);
}

TEST(Watch, WhoShowsNoLifeIsLostHoweverLongWorkMayTake) {
  Watch w({.heartbeat = seconds(2), .progress = seconds(86400)});
  Vitals v;
  watch(w, seconds(3), v, lives_and_gets_on);
  const auto found = watch(w, seconds(60), v, [](Vitals&, int) {});
  ASSERT_TRUE(found.finding);
  EXPECT_EQ(found.finding->kind, Finding::Kind::lost);
  EXPECT_EQ(found.finding->text, "showed no life for 2.0 s");
  EXPECT_EQ(found.after, seconds(2));
}

TEST(Watch, WhoWaitsForOthersAndShowsNoLifeIsLostToo) {
  Watch w(kLimits);
  Vitals v;
  watch(w, seconds(3), v, lives_and_gets_on);
  v.waiting = true;
  EXPECT_TRUE(watch(w, seconds(60), v, [](Vitals&, int) {}).finding);
}

TEST(Watch, WhoLivesAndDoesNotGetOnIsStuck) {
  Watch w(kLimits);
  Vitals v;
  watch(w, seconds(3), v, lives_and_gets_on);
  const auto found = watch(w, seconds(60), v, [](Vitals& x, int) { ++x.beats; });
  ASSERT_TRUE(found.finding);
  EXPECT_EQ(found.finding->kind, Finding::Kind::stuck);
  EXPECT_EQ(found.finding->text, "made no progress for 5.0 s");
  EXPECT_EQ(found.after, seconds(5));
}

TEST(Watch, WhoGetsOnSlowlyIsNotStuck) {
  Watch w(kLimits);
  Vitals v;
  const auto found = watch(w, seconds(120), v, [](Vitals& x, int tick) {
    ++x.beats;
    x.progress += tick % 49 == 0 ? 1 : 0;
  });
  EXPECT_FALSE(found.finding);
}

TEST(Watch, WhoWaitsForOthersIsNotStuck) {
  Watch w(kLimits);
  Vitals v;
  const auto found = watch(w, seconds(120), v, [](Vitals& x, int tick) {
    ++x.beats;
    x.waiting = tick % 2 == 0;  // between two waits it looks around
  });
  EXPECT_FALSE(found.finding);
}

TEST(Watch, BeforeItsFirstBeatAProcessHasTimeToStart) {
  Watch w(kLimits);
  Vitals v;
  const auto found = watch(w, seconds(60), v, [](Vitals&, int) {});
  ASSERT_TRUE(found.finding);
  EXPECT_EQ(found.finding->text, "showed no life in the 10.0 s since it was started");
}

TEST(Watch, AfterItsFirstBeatAProcessIsLostAsSoonAsAnyOther) {
  Watch w(kLimits);
  Vitals v{.beats = 1};
  const auto found = watch(w, seconds(60), v, [](Vitals&, int) {});
  ASSERT_TRUE(found.finding);
  EXPECT_EQ(found.finding->text, "showed no life for 2.0 s");
}

TEST(Watch, TimeThatItTookToStartIsNotTakenForLackOfProgress) {
  Watch w(kLimits);
  Vitals v;
  EXPECT_FALSE(watch(w, seconds(8), v, [](Vitals&, int) {}).finding);
  EXPECT_FALSE(watch(w, seconds(4), v, [](Vitals& x, int) { ++x.beats; }).finding);
}

TEST(Watch, WhoHasSignedOffHasTimeToEnd) {
  Watch w(kLimits);
  Vitals v;
  watch(w, seconds(3), v, lives_and_gets_on);
  v.signed_off = true;
  const auto found = watch(w, seconds(60), v, [](Vitals&, int) {});
  ASSERT_TRUE(found.finding);
  EXPECT_EQ(found.finding->text, "did not end for 10.0 s after its work was done");
  EXPECT_EQ(found.after, seconds(10) + kTick);
}

TEST(Watch, AnExcuseLetsTheTimeBeginAnew) {
  Watch w(kLimits);
  Vitals v;
  watch(w, seconds(1), v, lives_and_gets_on);
  EXPECT_FALSE(watch(w, milliseconds(1900), v, [](Vitals&, int) {}).finding);
  w.excuse();
  EXPECT_FALSE(watch(w, milliseconds(1900), v, [](Vitals&, int) {}).finding);
}

TEST(Watch, SentencesSayWhatTheProcessWasDoing) {
  const Finding lost{Finding::Kind::lost, "showed no life for 2.1 s"};
  const Finding stuck{Finding::Kind::stuck, "made no progress for 5.0 s"};
  EXPECT_EQ(describe(lost, true, "computing step 17"),
            "showed no life for 2.1 s (its process is stopped); it was computing step 17");
  EXPECT_EQ(describe(lost, false, ""), "showed no life for 2.1 s");
  EXPECT_EQ(describe(stuck, false, "evaluating, batch 3 of 20"),
            "made no progress for 5.0 s; it says: evaluating, batch 3 of 20");
}

}  // namespace
}  // namespace tutti::launch
