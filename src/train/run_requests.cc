#include "train/run_requests.h"

namespace tutti::train {

using net::Request;

namespace {

// The word goes through the launcher, which looks ten times a second.
constexpr auto kTimeToTell = std::chrono::seconds(10);

}  // namespace

RunRequests::Asked RunRequests::after_step(std::int64_t done) {
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

void RunRequests::decide(Request request, std::int64_t done) {
  board_.requests().decide(request, (done / period_ + 1) * period_);
  board_.requests().await_known(self_, request, kTimeToTell);
}

}  // namespace tutti::train
