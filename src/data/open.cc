#include "data/open.h"

#include "base/error.h"

namespace tutti::data {
namespace {

PartFiles by_part(const DatasetInfo& info, const LocatedDataset& located) {
  PartFiles files;
  for (std::size_t i = 0; i < info.files.size(); ++i) {
    const auto& part = info.files[i].part;
    if (part && !located.paths[i].empty()) files[*part].push_back(located.paths[i].string());
  }
  return files;
}

}  // namespace

void require_form(const DatasetInfo& info, const std::vector<Field>& wanted) {
  if (info.format->can_give(wanted)) return;
  throw ConfigError(fmt::format("data {} has {}; it cannot be given as {}", info.name,
                                text_of(info.format->native_fields({})), text_of(wanted)));
}

std::vector<Field> native_fields(const DatasetInfo& info, const LocatedDataset& located) {
  return info.format->native_fields(by_part(info, located));
}

std::vector<std::string> names_of(const DatasetInfo& info, const LocatedDataset& located) {
  const auto* known = dynamic_cast<const Names*>(info.format.get());
  return known == nullptr ? std::vector<std::string>{} : known->names(by_part(info, located));
}

PlainFiles prepare(const DatasetInfo& info, const LocatedDataset& located, const std::vector<Field>& wanted,
                   const std::filesystem::path& cache) {
  require_form(info, wanted);
  return info.format->prepare(by_part(info, located), wanted, cache);
}

std::unique_ptr<Samples> open(const DatasetInfo& info, std::span<const std::string> files,
                              const std::vector<Field>& wanted) {
  require_form(info, wanted);
  return info.format->open(files, wanted);
}

}  // namespace tutti::data
