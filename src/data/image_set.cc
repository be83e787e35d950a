#include "data/image_set.h"

#include <algorithm>

namespace tutti::data {

ImageSet ImageSet::open(const std::filesystem::path& images, const std::filesystem::path& labels,
                        std::size_t classes) {
  ImageSet set(IdxFile::open(images, IdxKind::images), IdxFile::open(labels, IdxKind::labels));
  if (set.images_.count() != set.labels_.count()) {
    throw DataError(fmt::format("{}: offset 4: {} labels, expected {} as in {}", labels.string(),
                                set.labels_.count(), set.images_.count(), images.string()));
  }
  const auto items = set.labels_.items();
  const auto bad = std::ranges::find_if(items, [&](std::uint8_t label) { return label >= classes; });
  if (bad != items.end()) {
    const auto offset = set.labels_.header_bytes() + static_cast<std::size_t>(bad - items.begin());
    throw DataError(
        fmt::format("{}: offset {}: label {}, expected 0 to {}", labels.string(), offset, *bad, classes - 1));
  }
  return set;
}

}  // namespace tutti::data
