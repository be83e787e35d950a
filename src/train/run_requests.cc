#include "train/run_requests.h"

#include <algorithm>
#include <array>

namespace tutti::train {

using net::Request;

namespace {

// The word goes through the launcher, which looks ten times a second.
constexpr auto kTimeToTell = std::chrono::seconds(10);

// Soon enough for who has asked, and too seldom to cost a run anything.
constexpr auto kBetweenTalks = std::chrono::milliseconds(500);
// Steps may become slower than those that were measured.
constexpr std::int64_t kMostSteps = 256;

}  // namespace

std::int32_t steps_to_next_talk(std::int64_t steps, Clock::duration took) {
  const auto a_step =
      std::max<Clock::duration>(took / std::max<std::int64_t>(1, steps), std::chrono::nanoseconds(1));
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(kBetweenTalks / a_step, 1, kMostSteps));
}

RunRequests::Asked RunRequests::after_step(std::int64_t done) {
  if (all_ != nullptr && board_.mirror().shows_one_host()) return tell_each_other(done);
  Asked due;
  const net::JobRequests job = board_.requests();
  if (mode_ == StepMode::asynchronous) {
    if (first() && job.asked(Request::stop) > 0) job.decide(Request::stop, done);
    due.stop = job.decided(Request::stop).has_value();
    if (first() && job.asked(Request::save) > saves_) {
      saves_ = job.asked(Request::save);
      due.save = true;
    }
    return due;
  }
  due.stop = job.decided(Request::stop) == done;
  due.save = job.decided(Request::save) == done;
  if (first()) {
    if (job.asked(Request::stop) > 0 && !job.decided(Request::stop)) decide(Request::stop, done);
    // A decision stands until everybody has seen it: who takes part in the step after it, or the meeting
    // after it, has.
    const auto last = job.decided(Request::save);
    if (job.asked(Request::save) > saves_ && (!last || done >= *last + period_)) {
      saves_ = job.asked(Request::save);
      decide(Request::save, done);
    }
  }
  return due;
}

// Rank 0 has the clock that counts: everyone must know when to talk next.
RunRequests::Asked RunRequests::tell_each_other(std::int64_t done) {
  if (done < talk_.after) return {};
  const net::JobRequests job = board_.requests();
  const std::uint32_t saves = job.asked(Request::save);
  const auto now = Clock::now();
  std::array<std::int32_t, 3> words = {
      job.asked(Request::stop) > 0 ? 1 : 0, saves > saves_ ? 1 : 0,
      self_ == Rank{0} ? steps_to_next_talk(done - talk_.last, now - talk_.at) : 0};
  all_->all_reduce({words.data(), words.size(), DType::i32}, collectives::ReduceOp::max, "requests");
  saves_ = saves;
  talk_ = {done + words[2], done, now};
  if (words[0] != 0) job.decide(Request::stop, done);
  return {.stop = words[0] != 0, .save = words[1] != 0};
}

void RunRequests::decide(Request request, std::int64_t done) {
  board_.requests().decide(request, (done / period_ + 1) * period_);
  board_.requests().await_known(self_, request, kTimeToTell);
}

}  // namespace tutti::train
