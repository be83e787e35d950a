#include "data/image_format.h"

#include <algorithm>

namespace tutti::data {

std::vector<Field> ImageFormat::native_fields(const PartFiles&) const {
  return image_fields(kind_.shape, kind_.classes);
}

bool ImageFormat::can_give(const std::vector<Field>& wanted) const {
  if (wanted.empty() || wanted[0].shape.size() != 3) return false;
  if (std::ranges::any_of(wanted[0].shape, [](std::int64_t side) { return side < 1; })) return false;
  const ImageShape shape = shape_in(wanted);
  auto given = image_fields(shape, kind_.classes);
  if (wanted[0].name == kPixels) given[0].name = kPixels;
  return wanted == given && (kind_.shape.channels == 1 || kind_.shape.channels == shape.channels);
}

PlainFiles ImageFormat::prepare(const PartFiles& sources, const std::vector<Field>&,
                                const std::filesystem::path&) const {
  PlainFiles prepared;
  // Checked under their own names first, so that an error names a file that the user knows.
  for (const Part part : kParts) open_set(sources[part]);
  for (const Part part : kParts) {
    for (const std::string& source : sources[part]) prepared.add(part, plain(source));
  }
  return prepared;
}

std::unique_ptr<Samples> ImageFormat::open(std::span<const std::string> files,
                                           const std::vector<Field>& wanted) const {
  std::vector<PixelTable> tables;
  const bool plain = wanted[0].name == kPixels;
  for (const auto& channel : kind_.channels) {
    tables.push_back(plain ? normalising_table(0, 1) : normalising_table(channel.mean, channel.deviation));
  }
  return std::make_unique<ImageSamples>(open_set(files), std::move(tables), wanted);
}

}  // namespace tutti::data
