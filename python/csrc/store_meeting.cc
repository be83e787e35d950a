#include "store_meeting.h"

#include "base/error.h"

namespace tutti::torch_backend {

StoreMeeting::StoreMeeting(c10::intrusive_ptr<c10d::Store> store, int rank, int world)
    : store_(std::move(store)), rank_(rank), world_(world), number_(store_->add(counter(), 1)) {}

std::string StoreMeeting::counter() const {
  return fmt::format("tutti/meetings/{}", rank_);
}

std::string StoreMeeting::key(int round, int rank) const {
  return fmt::format("tutti/{}/{}/{}", number_, round, rank);
}

void StoreMeeting::withdraw() noexcept {
  try {
    for (int round = 1; round <= round_; ++round) store_->deleteKey(key(round, rank_));
    store_->add(counter(), -1);
  } catch (const std::exception&) {
    // The store may be what has failed.
  }
}

std::vector<std::string> StoreMeeting::all_gather(const std::string& mine) {
  ++round_;
  store_->set(key(round_, rank_), std::vector<std::uint8_t>(mine.begin(), mine.end()));
  std::vector<std::string> texts;
  try {
    for (int r = 0; r < world_; ++r) {
      const auto text = store_->get(key(round_, r));
      texts.emplace_back(text.begin(), text.end());
    }
  } catch (const std::exception& e) {
    std::string missing;
    for (int r = 0; r < world_; ++r) {
      if (!store_->check({key(round_, r)})) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", r);
    }
    withdraw();
    throw RunError(fmt::format("rank {}: waited in vain for rank {} to join the process group: {}", rank_,
                               missing.empty() ? "?" : missing, e.what()));
  }
  return texts;
}

}  // namespace tutti::torch_backend
