#include "data/npy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "data/own_data.h"

namespace tutti::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

enum class Element { f4, f8, u1, i1, i2, i4, i8, b1 };

struct Kind {
  std::string_view descr;
  Element element;
  std::size_t bytes;
};
constexpr Kind kElements[] = {{"<f4", Element::f4, 4}, {"<f8", Element::f8, 8}, {"|u1", Element::u1, 1},
                              {"|i1", Element::i1, 1}, {"<i2", Element::i2, 2}, {"<i4", Element::i4, 4},
                              {"<i8", Element::i8, 8}, {"|b1", Element::b1, 1}};

// A file's numbers, mapped.
class Array {
 public:
  explicit Array(std::string path) : path_(std::move(path)), mapping_(map_file(path_)) {
    const auto bytes = mapping_.bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!text.starts_with(kMagic) || text.size() < 10) fail(0, "this is no .npy file");
    const auto at = [&](std::size_t i) {
      return static_cast<std::size_t>(static_cast<unsigned char>(text[i]));
    };
    const bool wide = at(6) >= 2;
    if (wide && text.size() < 12) fail(8, "the file ends in its header");
    const std::size_t length =
        wide ? at(8) + (at(9) << 8) + (at(10) << 16) + (at(11) << 24) : at(8) + (at(9) << 8);
    const std::size_t first = wide ? 12 : 10;
    if (length > text.size() - first) fail(8, "the file ends in its header");
    read_header(text.substr(first, length), first);
    data_ = bytes.subspan(first + length);
    std::size_t wanted = kind_->bytes;
    for (const auto n : shape_) {
      if (n != 0 && wanted > data_.size() / n) fail(first + length, "the file ends in its numbers");
      wanted *= n;
    }
    if (data_.size() != wanted) {
      fail(first + length,
           fmt::format("{} bytes of numbers follow; the header tells of {}", data_.size(), wanted));
    }
  }

  const std::string& path() const { return path_; }
  const std::vector<std::size_t>& shape() const { return shape_; }
  bool is_bytes() const { return kind_->element == Element::u1; }

  double operator[](std::size_t i) const {
    const std::byte* place = data_.data() + i * kind_->bytes;
    const auto as = [&]<typename T>(T value) {
      std::memcpy(&value, place, sizeof value);
      return static_cast<double>(value);
    };
    switch (kind_->element) {
      case Element::f4:
        return as(float{});
      case Element::f8:
        return as(double{});
      case Element::i1:
        return as(std::int8_t{});
      case Element::i2:
        return as(std::int16_t{});
      case Element::i4:
        return as(std::int32_t{});
      case Element::i8:
        return as(std::int64_t{});
      case Element::u1:
      case Element::b1:
        return as(std::uint8_t{});
    }
    return 0;
  }

  [[noreturn]] void fail(std::size_t offset, const std::string& what) const {
    throw DataError(fmt::format("{}: byte {}: {}", path_, offset, what));
  }

 private:
  // {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
  void read_header(std::string_view header, std::size_t offset) {
    const std::string_view descr = value_of(header, "'descr':", '\'', '\'', offset);
    kind_ = std::ranges::find(kElements, descr, &Kind::descr);
    if (kind_ == std::end(kElements)) {
      fail(offset,
           fmt::format("numbers of type '{}' cannot be read; save as float32, float64, uint8 or int64",
                       descr));
    }
    if (header.find("'fortran_order': False") == std::string_view::npos) {
      fail(offset, "the array is in Fortran's order; save numpy.ascontiguousarray(...)");
    }
    std::string_view rest = value_of(header, "'shape':", '(', ')', offset);
    while (!rest.empty()) {
      const std::string_view number = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), number.size() + 1));
      const std::string_view digits = number.substr(std::min(number.size(), number.find_first_not_of(' ')));
      if (digits.empty()) continue;  // "(8,)" ends with a comma
      std::size_t n = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
      if (error != std::errc() || end != digits.data() + digits.size())
        fail(offset, "the header's 'shape' is none");
      shape_.push_back(n);
    }
  }

  // What stands between `open` and `close` behind a key.
  std::string_view value_of(std::string_view header, std::string_view key, char open, char close,
                            std::size_t offset) const {
    const std::size_t at = header.find(key);
    const std::size_t first = at == std::string_view::npos ? at : header.find(open, at + key.size());
    const std::size_t last = first == std::string_view::npos ? first : header.find(close, first + 1);
    if (last == std::string_view::npos)
      fail(offset, fmt::format("the header has no {}", key.substr(0, key.size() - 1)));
    return header.substr(first + 1, last - first - 1);
  }

  std::string path_;
  Mapping mapping_;
  const Kind* kind_ = nullptr;
  std::vector<std::size_t> shape_;
  std::span<const std::byte> data_;
};

struct Arrays {
  Array x;
  Array y;
  std::vector<Field> fields;

  explicit Arrays(const PartFiles& sources)
      : x(sources[Part::training].at(0)), y(sources[Part::training].at(1)) {
    const auto& s = x.shape();
    if (s.size() < 2 || s.size() > 4 || std::ranges::count(s, 0U) > 0) {
      x.fail(0, fmt::format(
                    "an array of {} dimensions holds no samples; it wants N x D, N x H x W or N x C x H x W",
                    s.size()));
    }
    if (y.shape().size() != 1 || y.shape()[0] != s[0]) {
      y.fail(0, fmt::format("it must have one number for each of the {} samples of {}", s[0], x.path()));
    }
    std::vector<std::int64_t> shape(s.begin() + 1, s.end());
    if (s.size() == 3) shape.insert(shape.begin(), 1);
    std::int64_t classes = 0;
    for (std::size_t i = 0; i < s[0]; ++i) {
      const double label = y[i];
      if (label < 0 || label != std::floor(label) || label >= 1e6) {
        y.fail(0, fmt::format("number {} is {}; classes are whole numbers from 0 on", i, label));
      }
      classes = std::max(classes, static_cast<std::int64_t>(label) + 1);
    }
    if (classes < 2) y.fail(0, "all samples have class 0: there is nothing to tell apart");
    fields = {{s.size() == 2 ? "features" : "image", DType::f32, shape}, {"label", DType::i64, {}, classes}};
  }
};

}  // namespace

std::vector<Field> NpyFormat::native_fields(const PartFiles& sources) const {
  if (sources[Part::training].size() < 2) return {};
  return Arrays(sources).fields;
}

bool NpyFormat::can_give(const std::vector<Field>& wanted) const {
  return wanted.size() == 2 && wanted[0].type == DType::f32 && wanted[1].name == "label" &&
         wanted[1].shape.empty();
}

std::array<Words, 2> NpyFormat::read(const PartFiles& sources, const std::vector<Field>& wanted) const {
  const Arrays arrays(sources);
  if (wanted[0].shape != arrays.fields[0].shape || wanted[1].below < arrays.fields[1].below) {
    throw ConfigError(fmt::format("{} has {}; it cannot be given as {}", arrays.x.path(),
                                  text_of(arrays.fields), text_of(wanted)));
  }
  const std::size_t numbers = wanted[0].count();
  const double scale = arrays.x.is_bytes() && wanted[0].shape.size() > 1 ? 1.0 / 255 : 1;
  std::array<Words, 2> words;
  for (std::size_t i = 0; i < arrays.x.shape()[0]; ++i) {
    Words& part = words[static_cast<std::size_t>(part_of(i, test_share_))];
    for (std::size_t j = 0; j < numbers; ++j) {
      const double value = arrays.x[i * numbers + j];
      if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max()) {
        arrays.x.fail(0, fmt::format("sample {} holds {}, which no float can", i, value));
      }
      if (!std::isfinite(value))
        arrays.x.fail(0, fmt::format("sample {} holds {}", i, std::isnan(value) ? "nan" : "inf"));
      part.add_number(static_cast<float>(value * scale));
    }
    part.add_index(static_cast<std::size_t>(arrays.y[i]));
  }
  for (const Words& part : words) {
    if (part.size() == 0) arrays.x.fail(0, "too few samples for a training and a test part");
  }
  return words;
}

namespace {

DatasetInfo npy_dataset(std::string_view path, const OwnDataOptions& options) {
  const std::size_t comma = path.find(',');
  if (comma == std::string_view::npos) {
    throw ConfigError(fmt::format("data npy:{} names one file; it wants two, npy:X.npy,Y.npy", path));
  }
  return own_dataset("npy:" + std::string(path), "arrays of your own",
                     {{std::string(path.substr(0, comma))}, {std::string(path.substr(comma + 1))}},
                     std::make_shared<NpyFormat>(options.test_share));
}

}  // namespace

OwnDataKind npy_data() {
  return {"npy:", "npy:X.npy,Y.npy", "NumPy arrays: samples, and the class of each", npy_dataset};
}

}  // namespace tutti::data
