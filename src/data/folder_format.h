// Folders of images (image_folder.h) as samples: "image" in any size and in 1 or 3 channels, "label".
//
// prepare() decodes every image once, so that a damaged one is found before a run begins, and leaves an index
// for each part: mean and deviation of the training part's channels, then path, label and SHA-256 of each
// image. Paths are below the folder, so the index is the same wherever that lies. Samples are read, compared
// with their digest and decoded when they are asked for, by a pool of as many threads as the process has
// cores.
//
// Images are stretched to the size that is wanted. Who asks for "pixels" instead of "image" gets them from 0
// to 1.
#pragma once

#include <filesystem>

#include "data/catalogue.h"

namespace tutti::data {

class FolderFormat final : public Format, public Names {
 public:
  // The only source is the folder itself. So much of each class is for tests, unless there is a folder of
  // them.
  FolderFormat(std::filesystem::path folder, double test_share)
      : folder_(std::move(folder)), test_share_(test_share) {}

  // The size that most images of the training part have; three channels if one of them has.
  std::vector<Field> native_fields(const PartFiles& sources) const override;
  bool can_give(const std::vector<Field>& wanted) const override;
  PlainFiles prepare(const PartFiles& sources, const std::vector<Field>& wanted,
                     const std::filesystem::path& cache) const override;
  // Decoding throws DataError if a file is gone or has changed since it was prepared.
  std::unique_ptr<Samples> open(std::span<const std::string> files,
                                const std::vector<Field>& wanted) const override;
  std::vector<std::string> names(const PartFiles& sources) const override;

 private:
  std::filesystem::path folder_;
  double test_share_;
};

}  // namespace tutti::data
