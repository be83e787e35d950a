#include "data/show.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "data/aligned_buffer.h"
#include "data/image_samples.h"
#include "data/open.h"

namespace tutti::data {
namespace {

constexpr std::size_t kLineWidth = 80;
constexpr std::size_t kMostRows = 20;                        // of the table of classes
constexpr std::size_t kDrawingCols = 24;                     // three beside each other
constexpr std::size_t kDrawingRows = 24;                     // of tall images
constexpr std::size_t kDecodedBytes = std::size_t{1} << 26;  // at a time

// Decoded samples, a buffer a field.
class Buffers {
 public:
  Buffers(const Samples& samples, std::size_t count) : fields_(samples.fields()) {
    for (const Field& f : fields_) memory_.emplace_back(count * f.bytes());
  }
  void decode(const Samples& samples, std::span<const std::uint32_t> indices) {
    std::vector<std::span<std::byte>> into;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      into.push_back(memory_[f].span().first(indices.size() * fields_[f].bytes()));
    }
    samples.decode(indices, into);
  }
  template <typename T>
  std::span<const T> numbers(std::size_t field, std::size_t samples) {
    return as_numbers<T>(memory_[field].span()).first(samples * fields_[field].count());
  }

 private:
  const std::vector<Field>& fields_;
  std::vector<AlignedBuffer<std::byte>> memory_;
};

std::optional<std::size_t> label_in(const std::vector<Field>& fields) {
  const auto found = std::ranges::find_if(
      fields, [](const Field& f) { return f.name == "label" && f.type == DType::i64 && f.shape.empty(); });
  if (found == fields.end()) return std::nullopt;
  return static_cast<std::size_t>(found - fields.begin());
}

// As they are on disk, and not with mean 0.
std::vector<Field> as_pixels(const DatasetInfo& info, const std::vector<Field>& fields) {
  auto pixels = fields;
  if (pixels.at(0).name == "image") pixels[0].name = kPixels;
  return info.format->can_give(pixels) ? pixels : fields;
}

// Names come from strangers' folders and tables: what would command the terminal is left out.
std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

class Tally {
 public:
  void add(double x) {
    ++count_;
    sum_ += x;
    squares_ += x * x;
    least_ = std::min(least_, x);
    most_ = std::max(most_, x);
  }
  NumberSummary of(const std::string& field) const {
    const double mean = sum_ / count_;
    return {field, mean, std::sqrt(std::max(0.0, squares_ / count_ - mean * mean)), least_, most_};
  }

 private:
  double count_ = 0;
  double sum_ = 0;
  double squares_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = -std::numeric_limits<double>::infinity();
};

// One value a pixel, from 0 for the darkest of the image to 255 for the brightest.
std::vector<std::uint8_t> as_grey(std::span<const float> pixels, const ImageShape& shape) {
  constexpr float kWeights[] = {0.299F, 0.587F, 0.114F};
  std::vector<float> grey(shape.plane());
  for (std::size_t p = 0; p < grey.size(); ++p) {
    for (std::size_t c = 0; c < shape.channels; ++c) {
      grey[p] += (shape.channels == 3 ? kWeights[c] : 1.0F) * pixels[c * shape.plane() + p];
    }
  }
  const auto [least, most] = std::ranges::minmax(grey);
  std::vector<std::uint8_t> bytes;
  for (const float x : grey) {
    bytes.push_back(most > least ? static_cast<std::uint8_t>(std::lround(255 * (x - least) / (most - least)))
                                 : std::uint8_t{0});
  }
  return bytes;
}

std::string cut(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : fmt::format("{}...", text.substr(0, most - 3));
}

}  // namespace

Show::Show(const DatasetInfo& info, const LocatedDataset& located, const std::filesystem::path& cache)
    : title_(fmt::format("{}: {}", info.name, info.title)) {
  overview_.fields = native_fields(info, located);
  overview_.names = names_of(info, located);
  const auto wanted = as_pixels(info, overview_.fields);
  plain_ = prepare(info, located, wanted, cache);
  if (const auto label = label_in(wanted)) {
    overview_.by_class.resize(static_cast<std::size_t>(wanted[*label].below));
  }
  for (const Part part : kParts) {
    samples_[static_cast<std::size_t>(part)] = open(info, plain_.files[part], wanted);
    count(part);
  }
}

// Goes over all samples of a part.
void Show::count(Part part) {
  const auto p = static_cast<std::size_t>(part);
  const Samples& samples = *samples_[p];
  const auto& fields = samples.fields();
  const auto label = label_in(fields);
  const std::size_t bytes = std::accumulate(fields.begin(), fields.end(), std::size_t{0},
                                            [](std::size_t sum, const Field& f) { return sum + f.bytes(); });
  const std::size_t at_once = std::clamp<std::size_t>(kDecodedBytes / bytes, 1, 1024);
  overview_.samples[p] = samples.size();
  Buffers buffers(samples, at_once);
  std::vector<Tally> tallies(fields.size());
  std::set<std::size_t> seen;
  for (std::size_t first = 0; first < samples.size(); first += at_once) {
    std::vector<std::uint32_t> indices(std::min(at_once, samples.size() - first));
    std::iota(indices.begin(), indices.end(), static_cast<std::uint32_t>(first));
    buffers.decode(samples, indices);
    for (std::size_t f = 0; f < fields.size() && part == Part::training; ++f) {
      if (fields[f].type != DType::f32) continue;
      for (const float x : buffers.numbers<float>(f, indices.size())) tallies[f].add(x);
    }
    for (std::size_t i = 0; i < indices.size() && label; ++i) {
      const auto number = static_cast<std::size_t>(buffers.numbers<std::int64_t>(*label, indices.size())[i]);
      ++overview_.by_class.at(number)[p];
      if (part == Part::training && seen.insert(number).second) examples_.push_back(indices[i]);
    }
  }
  for (std::size_t f = 0; f < fields.size() && part == Part::training; ++f) {
    if (fields[f].type == DType::f32) overview_.numbers.push_back(tallies[f].of(overview_.fields[f].name));
  }
}

std::string Show::name_of(std::size_t number) const {
  return number < overview_.names.size() ? printable(overview_.names[number]) : std::to_string(number);
}

std::string Show::text(const DrawingStyle& style) const {
  std::string text = fmt::format("{}\n{}\n{} training samples, {} test samples\n", printable(title_),
                                 text_of(overview_.fields), overview_.samples[0], overview_.samples[1]);
  for (const auto& n : overview_.numbers) {
    text += fmt::format("{}: mean {:.4g}, deviation {:.4g}, from {:.4g} to {:.4g}\n", n.field, n.mean,
                        n.deviation, n.least, n.most);
  }
  if (!overview_.by_class.empty()) text += class_table();
  if (style.samples > 0) text += drawn_samples(style);
  return text;
}

// All classes in their order, or of many the largest and the smallest.
std::string Show::class_table() const {
  std::vector<std::size_t> order(overview_.by_class.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool many = order.size() > kMostRows;
  if (many) {
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t c) { return overview_.by_class[c][0]; });
  }
  std::string text =
      fmt::format("\n{:<40} {:>9} {:>9}\n", fmt::format("{} classes", order.size()), "training", "test");
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (many && i == kMostRows / 2) {
      text += fmt::format("... {} classes between\n", order.size() - kMostRows);
      i = order.size() - kMostRows / 2;
    }
    const auto& counts = overview_.by_class[order[i]];
    text += fmt::format("{:<40} {:>9} {:>9}\n", cut(name_of(order[i]), 40), counts[0], counts[1]);
  }
  return text;
}

std::string Show::drawn_samples(const DrawingStyle& style) const {
  std::vector<std::uint32_t> drawn = examples_;
  if (drawn.size() > style.samples) drawn.resize(style.samples);
  for (std::uint32_t i = 0; drawn.size() < std::min(style.samples, overview_.samples[0]); ++i) {
    if (std::ranges::find(drawn, i) == drawn.end()) drawn.push_back(i);
  }
  std::string text;
  if (overview_.fields[0].shape.size() != 3) {
    for (const std::uint32_t sample : drawn) text += "\n" + write_out(sample);
    return text + "\n";
  }
  const std::size_t beside = std::max<std::size_t>(1, (kLineWidth + 2) / (kDrawingCols + 2));
  for (std::size_t first = 0; first < drawn.size(); first += beside) {
    const auto line = std::span(drawn).subspan(first, std::min(beside, drawn.size() - first));
    text += "\n";
    for (const std::uint32_t sample : line) {
      text += fmt::format("{:<{}}", cut(caption(sample), kDrawingCols), kDrawingCols + 2);
    }
    std::vector<std::vector<std::string>> images;
    for (const std::uint32_t sample : line) images.push_back(draw_image(sample, style.blocks));
    for (std::size_t row = 0; row < images[0].size(); ++row) {
      text += "\n";
      for (const auto& image : images) text += image[row] + "  ";
    }
    text += "\n";
  }
  return text;
}

std::string Show::caption(std::uint32_t sample) const {
  const auto label = label_in(samples_[0]->fields());
  if (!label) return fmt::format("sample {}", sample);
  Buffers buffers(*samples_[0], 1);
  buffers.decode(*samples_[0], std::span(&sample, 1));
  return name_of(static_cast<std::size_t>(buffers.numbers<std::int64_t>(*label, 1)[0]));
}

// Lines of kDrawingCols characters, as many as a character's being twice as high as wide asks for.
std::vector<std::string> Show::draw_image(std::uint32_t sample, bool blocks) const {
  static const std::vector<std::string> kBlocks = {" ", "░", "▒", "▓", "█"};
  static const std::vector<std::string> kAscii = {" ", ".", ":", "-", "=", "+", "*", "#", "%", "@"};
  const auto& ramp = blocks ? kBlocks : kAscii;
  Buffers buffers(*samples_[0], 1);
  buffers.decode(*samples_[0], std::span(&sample, 1));
  const ImageShape shape = shape_in(samples_[0]->fields());
  const auto grey = as_grey(buffers.numbers<float>(0, 1), shape);
  const PlaneSize size{std::clamp<std::size_t>(kDrawingCols * shape.rows / shape.cols / 2, 1, kDrawingRows),
                       kDrawingCols};
  std::vector<float> drawn(size.count());
  scale_bytes(grey, {shape.rows, shape.cols}, drawn, size);
  // Once more, because averages are less bright than the brightest pixel.
  const auto [least, most] = std::ranges::minmax(drawn);
  const float range = most > least ? most - least : 1;
  std::vector<std::string> lines(size.rows);
  for (std::size_t p = 0; p < drawn.size(); ++p) {
    const auto shade = std::lround((drawn[p] - least) / range * static_cast<float>(ramp.size() - 1));
    lines[p / size.cols] += ramp[static_cast<std::size_t>(shade)];
  }
  return lines;
}

// "features 0.1 -1.2 3; label setosa", or a text's words.
std::string Show::write_out(std::uint32_t sample) const {
  const auto& fields = samples_[0]->fields();
  Buffers buffers(*samples_[0], 1);
  buffers.decode(*samples_[0], std::span(&sample, 1));
  std::string ending;
  std::string text;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    std::string values;
    const auto count = std::min<std::size_t>(fields[f].count(), kLineWidth);  // no more fit a line
    for (std::size_t i = 0; i < count; ++i) {
      values +=
          fields[f].type == DType::f32
              ? fmt::format(" {:.3g}", buffers.numbers<float>(f, 1)[i])
              : fmt::format(" {}", name_of(static_cast<std::size_t>(buffers.numbers<std::int64_t>(f, 1)[i])));
    }
    // A label is what people look for, and is never cut off.
    (fields[f].shape.empty() ? ending : text) +=
        fmt::format("{}{}{}", text.empty() && ending.empty() ? "" : "; ", fields[f].name, values);
  }
  return cut(text, kLineWidth - std::min(kLineWidth / 2, ending.size())) + ending;
}

}  // namespace tutti::data
