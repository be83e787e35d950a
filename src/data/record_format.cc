#include "data/record_format.h"

namespace tutti::data {

PlainFiles RecordFormat::prepare(const PartFiles& sources, const std::vector<Field>& wanted,
                                 const std::filesystem::path&) const {
  const auto words = read(sources, wanted);
  PlainFiles prepared;
  for (const Part part : kParts) prepared.add(part, words[static_cast<std::size_t>(part)].share());
  return prepared;
}

std::unique_ptr<Samples> RecordFormat::open(std::span<const std::string> files,
                                            const std::vector<Field>& wanted) const {
  return std::make_unique<RecordSamples>(files[0], wanted);
}

}  // namespace tutti::data
