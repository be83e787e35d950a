#include "library/optimizer_state.h"

#include <c10/util/Type.h>
#include <torch/serialize/archive.h>

#include <cstring>
#include <memory>
#include <sstream>
#include <typeinfo>
#include <vector>

#include "base/error.h"

namespace tutti::library {
namespace {

torch::serialize::InputArchive archive_of(const std::string& bytes) {
  torch::serialize::InputArchive archive;
  archive.load_from(bytes.data(), bytes.size());
  return archive;
}

std::optional<std::string> first_nonfinite_in(torch::serialize::InputArchive& archive,
                                              const std::string& path) {
  for (const std::string& key : archive.keys()) {
    const std::string name = path.empty() ? key : path + "." + key;
    torch::serialize::InputArchive inner;
    c10::IValue value;
    if (archive.try_read(key, inner)) {
      if (auto found = first_nonfinite_in(inner, name)) return found;
    } else if (archive.try_read(key, value) && value.isTensor() && value.toTensor().defined() &&
               value.toTensor().is_floating_point() &&
               !torch::isfinite(value.toTensor()).all().item<bool>()) {
      return fmt::format("{} of the optimizer holds a NaN or infinite number", name);
    }
  }
  return std::nullopt;
}

// A class of a user's own may not know how to copy its options; what it then reads is its own affair.
std::unique_ptr<torch::optim::OptimizerOptions> copy_of_options(
    const torch::optim::OptimizerParamGroup& group) {
  if (!group.has_options()) return nullptr;
  try {
    return group.options().clone();
  } catch (const c10::Error&) {
    return nullptr;
  }
}

}  // namespace

std::string class_of(const torch::optim::Optimizer& optimizer) {
  return c10::demangle(typeid(optimizer).name());
}

std::string serialised(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  std::string bytes = std::move(stream).str();
  if (!optimizer.state().empty() && archive_of(bytes).keys().empty()) {
    throw ConfigError(
        fmt::format("the optimizer {} has state and does not write it: let it override save() and load()",
                    class_of(optimizer)));
  }
  return bytes;
}

std::optional<std::string> first_nonfinite(const std::string& serialised) {
  auto archive = archive_of(serialised);
  return first_nonfinite_in(archive, "");
}

void deserialise(torch::optim::Optimizer& optimizer, const std::string& serialised,
                 const std::string& where) {
  // Newer libtorch reads options, too.
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
  for (const auto& group : optimizer.param_groups()) options.push_back(copy_of_options(group));
  try {
    auto archive = archive_of(serialised);
    optimizer.load(archive);
  } catch (const c10::Error& e) {
    throw DataError(fmt::format("{}: {} cannot read its state: {}", where, class_of(optimizer),
                                e.what_without_backtrace()));
  }
  for (std::size_t g = 0; g < options.size(); ++g) {
    if (options[g]) optimizer.param_groups()[g].set_options(std::move(options[g]));
  }
}

// | length: u64 | bytes | up to three zeros |
torch::Tensor pack(const std::string& bytes) {
  const std::uint64_t length = bytes.size();
  const std::size_t all = sizeof length + bytes.size();
  auto packed = torch::zeros({static_cast<std::int64_t>((all + 3) / 4)}, torch::kInt32);
  auto* to = static_cast<char*>(packed.data_ptr());
  std::memcpy(to, &length, sizeof length);
  std::memcpy(to + sizeof length, bytes.data(), bytes.size());
  return packed;
}

std::string unpack(std::span<const std::byte> packed, const std::string& where) {
  std::uint64_t length = 0;
  if (packed.size() >= sizeof length) std::memcpy(&length, packed.data(), sizeof length);
  if (packed.size() < sizeof length || length > packed.size() - sizeof length) {
    throw DataError(fmt::format("{}: the optimizer's state is cut short", where));
  }
  return {reinterpret_cast<const char*>(packed.data()) + sizeof length, length};
}

}  // namespace tutti::library
