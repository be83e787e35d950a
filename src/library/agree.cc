#include "library/agree.h"

#include <fmt/format.h>

#include <exception>

#include "base/error.h"

namespace tutti::library {
namespace {

// What a process tells the others: one of these, then its result or what went wrong.
constexpr char kDone = '=';
constexpr char kConfig = 'c';
constexpr char kData = 'd';
constexpr char kNonFinite = 'n';
constexpr char kOther = 'r';

[[noreturn]] void throw_as(char kind, const std::string& what) {
  if (kind == kConfig) throw ConfigError(what);
  if (kind == kData) throw DataError(what);
  if (kind == kNonFinite) throw NonFinite(what);
  throw RunError(what);
}

}  // namespace

std::vector<std::string> all_or_none(collectives::Collectives& all, std::string_view label,
                                     const std::function<std::string()>& work) {
  std::string mine;
  std::exception_ptr failure;
  const auto failed = [&](char kind, const std::exception& e) {
    failure = std::current_exception();
    mine = kind + std::string(e.what());
  };
  try {
    mine = kDone + work();
  } catch (const ConfigError& e) {
    failed(kConfig, e);
  } catch (const DataError& e) {
    failed(kData, e);
  } catch (const NonFinite& e) {
    failed(kNonFinite, e);
  } catch (const std::exception& e) {
    failed(kOther, e);
  }
  auto told = gather_text(all, mine, label);
  if (failure) std::rethrow_exception(failure);
  for (std::size_t r = 0; r < told.size(); ++r) {
    if (told[r].at(0) != kDone) throw_as(told[r][0], fmt::format("rank {}: {}", r, told[r].substr(1)));
  }
  for (auto& text : told) text.erase(0, 1);
  return told;
}

void require_same(const std::vector<std::string>& told) {
  for (std::size_t r = 0; r < told.size(); ++r) {
    if (told[r] == told[0]) continue;
    throw ConfigError(
        fmt::format("processes 0 and {} do not train the same: {} and {}", r, told[0], told[r]));
  }
}

}  // namespace tutti::library
