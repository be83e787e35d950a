#include "engines/message_store.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "base/error.h"
#include "net/stall.h"

namespace tutti::engines {
namespace {

constexpr net::Activity kDoing{"connecting Gloo"};
constexpr auto kGlance = std::chrono::milliseconds(20);

// No Gloo address of a thousand ranks is so long: something else came.
constexpr std::uint64_t kLongest = 1 << 20;

// A message is its length and then: the key's length, the key, the value. That of no bytes says goodbye.
std::string message_of(const std::string& key, const std::vector<std::uint8_t>& value) {
  const auto length = static_cast<std::uint32_t>(key.size());
  std::string message(reinterpret_cast<const char*>(&length), sizeof length);
  message += key;
  message.append(value.begin(), value.end());
  return message;
}

}  // namespace

MessageStore::MessageStore(net::Transport& transport, Clock::duration timeout)
    : transport_(transport), timeout_(timeout) {
  for (int r = 0; r < transport.world(); ++r) {
    if (Rank{r} != transport.rank()) open_.push_back(Rank{r});
  }
}

void MessageStore::close() {
  for (int r = 0; r < transport_.world(); ++r) {
    if (Rank{r} != transport_.rank()) tell(Rank{r}, "");
  }
  while (!open_.empty()) take_in(open_);
}

void MessageStore::set(const std::string& key, const std::vector<std::uint8_t>& value) {
  values_[key] = value;
  const std::string message = message_of(key, value);
  for (int r = 0; r < transport_.world(); ++r) {
    if (Rank{r} != transport_.rank()) tell(Rank{r}, message);
  }
}

std::vector<std::uint8_t> MessageStore::get(const std::string& key) {
  wait({key});
  return values_.at(key);
}

bool MessageStore::check(const std::vector<std::string>& keys) {
  return std::ranges::all_of(keys, [this](const std::string& key) { return values_.contains(key); });
}

void MessageStore::wait(const std::vector<std::string>& keys) {
  while (!check(keys)) {
    if (open_.empty()) throw RunError(fmt::format("nobody has set '{}' for Gloo", keys.front()));
    take_in(open_);
  }
}

void MessageStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) {
  wait(keys);  // ours is the job's time-out
}

std::int64_t MessageStore::add(const std::string& key, std::int64_t) {
  throw RunError(fmt::format("Gloo's store cannot count '{}'", key));
}

bool MessageStore::deleteKey(const std::string& key) {
  throw RunError(fmt::format("Gloo's store cannot forget '{}'", key));
}

c10::intrusive_ptr<c10d::Store> MessageStore::clone() {
  throw RunError("Gloo's store cannot be copied");
}

void MessageStore::tell(Rank peer, const std::string& message) {
  const std::uint64_t length = message.size();
  net::send(transport_, peer, std::as_bytes(std::span(&length, 1)), kDoing);
  if (length > 0) net::send(transport_, peer, std::as_bytes(std::span(message)), kDoing);
}

// The next message of one of these peers.
void MessageStore::take_in(const std::vector<Rank>& peers) {
  net::Stall stall(transport_.board(), timeout_);
  std::optional<Rank> from;
  while (!(from = transport_.wait_for_any(peers, kGlance, kDoing))) {
    if (stall.over()) throw Timeout({transport_.rank(), peers.front(), kDoing.text(), stall.standing_ms()});
  }
  std::uint64_t length = 0;
  net::receive(transport_, *from, std::as_writable_bytes(std::span(&length, 1)), kDoing);
  if (length == 0) {
    std::erase(open_, *from);
    return;
  }
  std::uint32_t key_length = 0;
  if (length < sizeof key_length || length > kLongest)
    throw ProtocolError(fmt::format("rank {} sent {} bytes for Gloo's store", to_int(*from), length));
  std::string message(length, '\0');
  net::receive(transport_, *from, std::as_writable_bytes(std::span(message)), kDoing);
  std::memcpy(&key_length, message.data(), sizeof key_length);
  if (key_length > length - sizeof key_length)
    throw ProtocolError(
        fmt::format("rank {} sent a key of {} bytes for Gloo's store", to_int(*from), key_length));
  const auto value = message.begin() + sizeof key_length + key_length;
  values_[message.substr(sizeof key_length, key_length)] = {value, message.end()};
}

}  // namespace tutti::engines
