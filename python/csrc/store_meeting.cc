#include "store_meeting.h"

#include "base/error.h"

namespace tutti::torch_backend {

std::string StoreMeeting::key(int rank) const {
  return fmt::format("tutti/{}/{}", round_, rank);
}

std::vector<std::string> StoreMeeting::all_gather(const std::string& mine) {
  ++round_;
  store_->set(key(rank_), std::vector<std::uint8_t>(mine.begin(), mine.end()));
  std::vector<std::string> texts;
  try {
    for (int r = 0; r < world_; ++r) {
      const auto text = store_->get(key(r));
      texts.emplace_back(text.begin(), text.end());
    }
  } catch (const std::exception& e) {
    std::string missing;
    for (int r = 0; r < world_; ++r) {
      if (!store_->check({key(r)})) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", r);
    }
    throw RunError(fmt::format("rank {}: waited in vain for rank {} to join the process group: {}", rank_,
                               missing.empty() ? "?" : missing, e.what()));
  }
  return texts;
}

}  // namespace tutti::torch_backend
