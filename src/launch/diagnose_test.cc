#include "launch/diagnose.h"

#include <gtest/gtest.h>

#include <csignal>

namespace tutti::launch {
namespace {

using Kind = Failure::Kind;

RankEnd ended(int rank, int order, int code) {
  return {.rank = Rank{rank}, .running = false, .exit_code = code, .order = order};
}

RankEnd blaming(int rank, int order, Kind kind, int peer, const std::string& operation) {
  RankEnd e = ended(rank, order, 1);
  e.failure = Failure{kind, "rank blames rank",
                      PeerFault{Rank{rank}, Rank{peer}, operation, std::chrono::seconds(30)}};
  return e;
}

TEST(Diagnose, AllWellIsNothingToSay) {
  const auto v = diagnose({ended(0, 1, 0), ended(1, 2, 0)});
  EXPECT_EQ(v.exit_code, 0);
  EXPECT_TRUE(v.line.empty());
}

TEST(Diagnose, WhoCannotBeReachedIsNamedWithTheAddress) {
  for (const int order : {1, 3}) {  // whoever is the first whose time is over
    RankEnd calling = blaming(1, order, Kind::timeout, 0, "connecting");
    calling.failure->fault->address = "10.0.0.1:20000";
    const auto v = diagnose({blaming(0, 2, Kind::timeout, 1, "connecting"), calling,
                             blaming(2, 4, Kind::timeout, -1, "rendezvous")});
    EXPECT_EQ(v.line,
              "rank 0 did not answer for 30.0 s: rank 1 waited for it in connecting at 10.0.0.1:20000");
  }
}

TEST(Diagnose, TheRendezvousIsNoRank) {
  const auto v = diagnose({blaming(0, 1, Kind::timeout, -1, "connecting")});
  EXPECT_EQ(v.line, "the rendezvous did not answer for 30.0 s: rank 0 waited for it in connecting");
}

TEST(Diagnose, KilledRankIsNamedEvenIfAnotherEndedFirst) {
  RankEnd killed = ended(1, 2, 0);
  killed.signal = SIGKILL;
  const auto v = diagnose({blaming(0, 1, Kind::peer_lost, 1, "all-reduce of bucket 2, step 7"), killed});
  EXPECT_EQ(v.exit_code, 1);
  EXPECT_EQ(v.line, "rank 1 was killed by SIGKILL; rank 0 was in all-reduce of bucket 2, step 7");
}

TEST(Diagnose, OwnFailureComesBeforeThoseItCaused) {
  RankEnd own = ended(2, 3, 2);
  own.failure = Failure{Kind::usage, "labels: file x offset 9", std::nullopt};
  const auto v = diagnose(
      {blaming(0, 1, Kind::peer_lost, 2, "barrier"), blaming(1, 2, Kind::peer_lost, 0, "barrier"), own});
  EXPECT_EQ(v.exit_code, 2);
  EXPECT_EQ(v.line, "rank 2 failed: labels: file x offset 9");
}

TEST(Diagnose, ANumberThatIsNoneIsTheCauseWhateverOthersSay) {
  const auto failed = [](int rank, int order, const std::exception& e) {
    RankEnd end = ended(rank, order, 1);
    end.failure = failure_from_json(to_json(failure_of(e)));
    end.exit_code = exit_code_of(*end.failure);
    return end;
  };
  const auto v = diagnose({failed(0, 1, RunError("rank 0: cancelled")),
                           blaming(2, 2, Kind::peer_lost, 1, "all-reduce of bucket 0, step 17"),
                           failed(1, 3, NonFinite(Rank{1}, 17, "the loss is nan"))});
  EXPECT_EQ(v.exit_code, 1);
  EXPECT_EQ(v.line,
            "rank 1: step 17: the loss is nan; a smaller learning rate may help, or to skip such steps "
            "(--on-nonfinite skip; in the library skip_nonfinite)");
  EXPECT_TRUE(v.would_fail_again);
  EXPECT_FALSE(diagnose({failed(0, 1, RunError("the disk is full"))}).would_fail_again);
}

TEST(Diagnose, InACircleOfWaitingTheSilentOneIsToBlame) {
  RankEnd stopped{.rank = Rank{2}, .stopped = true};
  const auto v =
      diagnose({blaming(0, 1, Kind::timeout, 3, "all-reduce"), blaming(1, 2, Kind::timeout, 0, "all-reduce"),
                stopped, blaming(3, 3, Kind::timeout, 2, "all-reduce")});
  EXPECT_EQ(v.exit_code, 1);
  EXPECT_EQ(v.line,
            "rank 2 did not answer for 30.0 s (its process is stopped): rank 3 waited for it in all-reduce");
  RankEnd busy{.rank = Rank{1}};
  EXPECT_EQ(diagnose({blaming(0, 1, Kind::timeout, 1, "barrier"), busy}).line,
            "rank 1 did not answer for 30.0 s: rank 0 waited for it in barrier");
}

TEST(Diagnose, RankThatTheLauncherHadToEndIsNamedWithWhatWasFound) {
  RankEnd lost = ended(1, 2, 0);
  lost.signal = SIGKILL;
  lost.found = "showed no life for 2.1 s; it was computing step 17";
  const auto v = diagnose({blaming(0, 1, Kind::peer_lost, 1, "all-reduce of bucket 0"), lost});
  EXPECT_EQ(v.exit_code, 1);
  EXPECT_EQ(
      v.line,
      "rank 1 showed no life for 2.1 s; it was computing step 17; rank 0 was in all-reduce of bucket 0");
}

TEST(Diagnose, ExitWithoutAWordIsSaid) {
  const auto v = diagnose({ended(0, 2, 0), ended(1, 1, 7)});
  EXPECT_EQ(v.exit_code, 7);
  EXPECT_EQ(v.line, "rank 1 ended with exit code 7 and no word");
}

}  // namespace
}  // namespace tutti::launch
