#include "train/requests.h"

namespace tutti::train {

using net::Request;

Requests::Asked Requests::after_step(std::int64_t done) {
  Asked due;
  if (gait_ == Gait::asynchronous) {
    if (first() && board_.asked(Request::stop) > 0) board_.decide(Request::stop, done);
    due.stop = board_.decided(Request::stop).has_value();
    if (first() && board_.asked(Request::save) > saves_) {
      saves_ = board_.asked(Request::save);
      due.save = true;
    }
    return due;
  }
  due.stop = board_.decided(Request::stop) == done;
  due.save = board_.decided(Request::save) == done;
  if (first()) {
    if (board_.asked(Request::stop) > 0 && !board_.decided(Request::stop)) decide(Request::stop, done);
    // A decision stands until everybody has seen it: who takes part in the step after it, or the meeting
    // after it, has.
    const auto last = board_.decided(Request::save);
    if (board_.asked(Request::save) > saves_ && (!last || done >= *last + period_)) {
      saves_ = board_.asked(Request::save);
      decide(Request::save, done);
    }
  }
  return due;
}

void Requests::decide(Request request, std::int64_t done) {
  board_.decide(request, (done / period_ + 1) * period_);
}

}  // namespace tutti::train
