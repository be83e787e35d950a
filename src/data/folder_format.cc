#include "data/folder_format.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>

#include "base/crypto.h"
#include "base/error.h"
#include "base/process.h"
#include "data/image_folder.h"
#include "data/image_format.h"
#include "data/jpeg_png.h"
#include "data/own_data.h"
#include "data/pool.h"

namespace tutti::data {
namespace {

namespace fs = std::filesystem;

using Content = std::vector<std::byte>;

constexpr std::size_t kMostFileBytes = std::size_t{1} << 28;

// Read and not mapped: somebody who cuts a mapped file short ends the process that looks at it.
Content read_content(const fs::path& path) {
  const auto fail = [&](const std::string& why) {
    throw DataError(fmt::format("cannot read {}: {}", path.string(), why));
  };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe shall not hold us
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) fail(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail("not a regular file");
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (bytes > kMostFileBytes)
    fail(fmt::format("it has {} bytes; at most {} are taken", bytes, kMostFileBytes));
  Content content(bytes);
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = ::read(fd.get(), content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(std::strerror(errno));
    if (n == 0) content.resize(done);
    done += static_cast<std::size_t>(n);
  }
  return content;
}

// From 0 to 1, channel by channel.
void decode_scaled(const Content& content, const fs::path& path, const ImageShape& shape,
                   std::span<float> out) {
  const DecodedImage image = decode_image(content, path.string(), shape.channels);
  const std::size_t plane = image.shape.plane();
  for (std::size_t c = 0; c < shape.channels; ++c) {
    scale_bytes(std::span(image.pixels).subspan(c * plane, plane), {image.shape.rows, image.shape.cols},
                out.subspan(c * shape.plane(), shape.plane()), {shape.rows, shape.cols});
  }
}

struct IndexEntry {
  std::string sha256;
  std::size_t label = 0;
  std::string path;  // below the folder
};

struct Index {
  std::vector<ChannelStatistics> channels;
  std::vector<IndexEntry> entries;
};

// Lines that end in a zero byte, which no path has:
//   CHANNELS MEAN DEVIATION ...
//   SHA256 LABEL PATH
PlainFile share(const Index& index) {
  std::string text = std::to_string(index.channels.size());
  for (const auto& c : index.channels) text += fmt::format(" {} {}", c.mean, c.deviation);
  text += '\0';
  for (const auto& e : index.entries) {
    text += fmt::format("{} {} {}", e.sha256, e.label, e.path);
    text += '\0';
  }
  const auto bytes = std::as_bytes(std::span(text));
  UniqueFd memory = make_memory_file("tutti-images", bytes.size());
  write_all(memory.get(), bytes, "cannot write a memory file");
  return share_with_children(std::move(memory));
}

std::string_view take_until(std::string_view& rest, char end) {
  const std::string_view taken = rest.substr(0, rest.find(end));
  rest.remove_prefix(std::min(rest.size(), taken.size() + 1));
  return taken;
}

template <typename T>
T take_number(std::string_view& rest) {
  const std::string_view text = take_until(rest, ' ');
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  TUTTI_CHECK(error == std::errc() && end == text.data() + text.size(), "'{}' in an index of images", text);
  return value;
}

Index read_index(const std::string& file) {
  const std::string text = read_file(file);
  std::string_view rest = text;
  Index index;
  std::string_view first = take_until(rest, '\0');
  index.channels.resize(take_number<std::size_t>(first));
  for (auto& c : index.channels) c = {take_number<float>(first), take_number<float>(first)};
  while (!rest.empty()) {
    std::string_view line = take_until(rest, '\0');
    IndexEntry entry;
    entry.sha256 = take_until(line, ' ');
    entry.label = take_number<std::size_t>(line);
    entry.path = line;
    index.entries.push_back(std::move(entry));
  }
  return index;
}

class FolderSamples final : public Samples {
 public:
  FolderSamples(fs::path folder, Index index, std::vector<Field> fields)
      : folder_(std::move(folder)),
        index_(std::move(index)),
        fields_(std::move(fields)),
        shape_(shape_in(fields_)),
        pool_(std::make_unique<Pool>(allowed_cores().size(), "tutti-decode")) {
    TUTTI_CHECK(index_.channels.size() == shape_.channels);
    if (fields_[0].name == kPixels) index_.channels.assign(shape_.channels, {0, 1});
  }

  std::size_t size() const override { return index_.entries.size(); }
  const std::vector<Field>& fields() const override { return fields_; }

  void decode(std::span<const std::uint32_t> indices,
              std::span<const std::span<std::byte>> into) const override {
    const auto images = as_numbers<float>(into[0]);
    const auto labels = as_numbers<std::int64_t>(into[1]);
    TUTTI_CHECK(images.size() >= indices.size() * shape_.pixels() && labels.size() >= indices.size());
    pool_->for_each(indices.size(), [&](std::size_t i) {
      const IndexEntry& entry = index_.entries.at(indices[i]);
      decode_one(entry, images.subspan(i * shape_.pixels(), shape_.pixels()));
      labels[i] = static_cast<std::int64_t>(entry.label);
    });
  }

 private:
  void decode_one(const IndexEntry& entry, std::span<float> out) const {
    const fs::path path = folder_ / entry.path;
    const Content content = read_content(path);
    if (sha256_hex(content) != entry.sha256) {
      throw DataError(fmt::format("{}: the file has changed since the run began", path.string()));
    }
    decode_scaled(content, path, shape_, out);
    for (std::size_t c = 0; c < shape_.channels; ++c) {
      const auto [mean, deviation] = index_.channels[c];
      for (float& x : out.subspan(c * shape_.plane(), shape_.plane())) x = (x - mean) / deviation;
    }
  }

  fs::path folder_;
  Index index_;
  std::vector<Field> fields_;
  ImageShape shape_;
  std::unique_ptr<Pool> pool_;
};

// What a channel's pixels of one image come to.
struct Sums {
  double numbers = 0;
  double squares = 0;
};

ChannelStatistics statistics(const std::vector<std::vector<Sums>>& images, std::size_t channel,
                             std::size_t plane) {
  Sums all;
  for (const auto& image : images) {
    all.numbers += image[channel].numbers;
    all.squares += image[channel].squares;
  }
  const auto n = static_cast<double>(images.size() * plane);
  const double mean = all.numbers / n;
  const double variance = all.squares / n - mean * mean;
  // Rounding leaves a little where all pixels are the same.
  return {static_cast<float>(mean), variance > 1e-9 ? static_cast<float>(std::sqrt(variance)) : 1.0F};
}

// Reads and decodes the images of one part. Sums are kept by image and added in their order, so that they do
// not depend on which thread came first.
Index index_of(const fs::path& folder, const std::vector<ImageFile>& images, const ImageShape& shape,
               Pool& pool) {
  Index index{{}, std::vector<IndexEntry>(images.size())};
  std::vector<std::vector<Sums>> sums(images.size(), std::vector<Sums>(shape.channels));
  pool.for_each(images.size(), [&](std::size_t i) {
    const fs::path path = folder / images[i].path;
    const Content content = read_content(path);
    std::vector<float> pixels(shape.pixels());
    decode_scaled(content, path, shape, pixels);
    for (std::size_t p = 0; p < pixels.size(); ++p) {
      Sums& of_channel = sums[i][p / shape.plane()];
      of_channel.numbers += pixels[p];
      of_channel.squares += double{pixels[p]} * pixels[p];
    }
    index.entries[i] = {sha256_hex(content), images[i].label, images[i].path};
  });
  for (std::size_t c = 0; c < shape.channels; ++c) {
    index.channels.push_back(statistics(sums, c, shape.plane()));
  }
  return index;
}

}  // namespace

std::vector<Field> FolderFormat::native_fields(const PartFiles& sources) const {
  if (sources[Part::training].empty()) return {{"image", DType::f32, {}}, {"label", DType::i64, {}}};
  const auto folder = list_images(folder_, test_share_);
  const auto& images = folder[Part::training];
  std::vector<ImageShape> shapes(images.size());
  Pool(allowed_cores().size(), "tutti-decode").for_each(images.size(), [&](std::size_t i) {
    const fs::path path = folder_ / images[i].path;
    shapes[i] = image_shape(read_content(path), path.string());
  });
  ImageShape most;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> counts;
  std::size_t best = 0;
  for (const ImageShape& shape : shapes) {
    most.channels = std::max(most.channels, shape.channels);
    const std::size_t count = ++counts[{shape.rows, shape.cols}];
    if (count <= best) continue;
    best = count;
    most.rows = shape.rows;
    most.cols = shape.cols;
  }
  return image_fields(most, folder.classes.size());
}

bool FolderFormat::can_give(const std::vector<Field>& wanted) const {
  if (wanted.size() != 2 || wanted[0].shape.size() != 3 || wanted[1].below < 2) return false;
  if (std::ranges::any_of(wanted[0].shape, [](std::int64_t side) { return side < 1; })) return false;
  const ImageShape shape = shape_in(wanted);
  auto given = image_fields(shape, static_cast<std::size_t>(wanted[1].below));
  if (wanted[0].name == kPixels) given[0].name = kPixels;
  return wanted == given && (shape.channels == 1 || shape.channels == 3);
}

PlainFiles FolderFormat::prepare(const PartFiles&, const std::vector<Field>& wanted, const fs::path&) const {
  const auto folder = list_images(folder_, test_share_);
  if (static_cast<std::size_t>(wanted[1].below) < folder.classes.size()) {
    throw ConfigError(fmt::format("{} has {} classes; it cannot be given as {}", folder_.string(),
                                  folder.classes.size(), text_of(wanted)));
  }
  Pool pool(allowed_cores().size(), "tutti-decode");
  std::array<Index, 2> indices;
  for (const Part part : kParts) {
    indices[static_cast<std::size_t>(part)] = index_of(folder_, folder[part], shape_in(wanted), pool);
  }
  indices[1].channels = indices[0].channels;
  PlainFiles prepared;
  for (const Part part : kParts) prepared.add(part, share(indices[static_cast<std::size_t>(part)]));
  return prepared;
}

std::unique_ptr<Samples> FolderFormat::open(std::span<const std::string> files,
                                            const std::vector<Field>& wanted) const {
  return std::make_unique<FolderSamples>(folder_, read_index(files[0]), wanted);
}

std::vector<std::string> FolderFormat::names(const PartFiles&) const {
  return list_images(folder_, test_share_).classes;
}

namespace {

DatasetInfo folder_dataset(std::string_view path, const OwnDataOptions& options) {
  std::error_code error;
  const fs::path folder = fs::absolute(path).lexically_normal();
  if (!fs::is_directory(folder, error)) {
    throw DataError(fmt::format("cannot read {}: {}", path, error ? error.message() : "it is no folder"));
  }
  DatasetInfo info;
  info.name = "images:" + std::string(path);
  info.title = "images of your own";
  info.format = std::make_shared<FolderFormat>(folder, options.test_share);
  info.files.push_back({folder.string(), "", 0, Part::training, /*optional=*/false, /*folder=*/true});
  return info;
}

}  // namespace

OwnDataKind images_data() {
  return {"images:", "images:FOLDER", "JPEG and PNG files, a folder a class", folder_dataset};
}

}  // namespace tutti::data
