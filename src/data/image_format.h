// Sets of labelled images, whatever their files. An image can be given in any size, and one of one channel
// as several equal ones; the classes must agree. Who asks for "pixels" instead of "image" gets them from 0 to
// 1.
#pragma once

#include "data/format.h"
#include "data/image_samples.h"
#include "data/plain_file.h"

namespace tutti::data {

// Of the pixels of a channel, scaled to 0..1, over the training images.
struct ChannelStatistics {
  float mean = 0;
  float deviation = 1;
};

struct ImageKind {
  ImageShape shape;
  std::size_t classes = 0;
  std::vector<ChannelStatistics> channels;
};

class ImageFormat : public Format {
 public:
  explicit ImageFormat(ImageKind kind) : kind_(std::move(kind)) {}
  std::vector<Field> native_fields(const PartFiles& sources) const final;
  bool can_give(const std::vector<Field>& wanted) const final;
  PlainFiles prepare(const PartFiles& sources, const std::vector<Field>& wanted,
                     const std::filesystem::path& cache) const final;
  std::unique_ptr<Samples> open(std::span<const std::string> files,
                                const std::vector<Field>& wanted) const final;

 protected:
  const ImageKind& kind() const { return kind_; }

 private:
  // Of one part. Checks that it has the kind's shape and that every label is a class.
  virtual std::unique_ptr<const ImageSet> open_set(std::span<const std::string> files) const = 0;
  // Where every process can map the content of a source that is whole.
  virtual PlainFile plain(const std::string& source) const = 0;

  ImageKind kind_;
};

}  // namespace tutti::data
