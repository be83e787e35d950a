#include "data/idx_images.h"

#include <algorithm>

namespace tutti::data {

IdxImages IdxImages::open(const std::filesystem::path& images, const std::filesystem::path& labels,
                          std::size_t classes) {
  IdxImages set(IdxFile::open(images, IdxKind::images), IdxFile::open(labels, IdxKind::labels));
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

std::unique_ptr<const ImageSet> IdxFormat::open_set(std::span<const std::string> files) const {
  TUTTI_CHECK(files.size() == 2, "{} files", files.size());
  IdxImages set = IdxImages::open(files[0], files[1], kind().classes);
  if (set.shape() != kind().shape) {
    throw DataError(fmt::format("{}: offset 8: images of {}x{}, expected {}x{}", files[0], set.shape().rows,
                                set.shape().cols, kind().shape.rows, kind().shape.cols));
  }
  return std::make_unique<const IdxImages>(std::move(set));
}

}  // namespace tutti::data
