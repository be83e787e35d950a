// Both libraries leave by longjmp when something is wrong. So each is driven from one place that calls
// setjmp, and what runs below it has no destructors: memory is taken between the parts, by those who call
// them.
#include "data/jpeg_png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>

// After <cstdio>, which they need and do not include.
#include <jerror.h>
#include <jpeglib.h>

#include "base/error.h"

namespace tutti::data {
namespace {

using Bytes = std::span<const std::byte>;

// A progressive file may ask for the whole image to be gone over as often as it likes, for a few bytes each.
constexpr int kMostScans = 200;

// One file being read. The order of calls: header, start, rows.
class Decoder {
 public:
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  bool header() { return attempt(&Decoder::read_header); }
  // Decides what rows consist of; `channels` are wanted.
  bool start(std::size_t channels) {
    wanted_ = channels;
    return attempt(&Decoder::begin_rows);
  }
  // Into `samples() * cols` bytes a row.
  bool rows(std::span<std::uint8_t> into) {
    into_ = into;
    return attempt(&Decoder::read_rows);
  }

  const ImageShape& shape() const { return shape_; }
  std::size_t samples() const { return samples_; }  // a pixel: grey, grey and alpha, RGB, or four
  virtual bool is_cmyk() const { return false; }

  std::string what() const {
    if (!started_) return fmt::format("header: {}", message_);
    if (row_ >= shape_.rows) return fmt::format("behind its last row: {}", message_);
    return fmt::format("row {} of {}: {}", row_ + 1, shape_.rows, message_);
  }

 protected:
  Decoder() = default;
  virtual void read_header() = 0;
  virtual void begin_rows() = 0;
  virtual void read_rows() = 0;

  [[noreturn]] void leave() { std::longjmp(escape_, 1); }

  ImageShape shape_;
  std::size_t wanted_ = 0;
  std::size_t samples_ = 0;
  std::span<std::uint8_t> into_;
  std::size_t row_ = 0;
  bool started_ = false;
  char message_[256] = {};

 private:
  bool attempt(void (Decoder::*part)()) {
    if (setjmp(escape_) != 0) return false;
    (this->*part)();
    return true;
  }

  std::jmp_buf escape_;
};

class Jpeg final : public Decoder {
 public:
  explicit Jpeg(Bytes file) : file_(file) {
    info_.client_data = this;
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) { of(info).fail(); };
    errors_.emit_message = [](j_common_ptr info, int level) { of(info).hear(level); };
    progress_.progress_monitor = [](j_common_ptr info) { of(info).count_scans(); };
  }
  ~Jpeg() override { jpeg_destroy_decompress(&info_); }

  bool is_cmyk() const override { return info_.out_color_space == JCS_CMYK; }

 private:
  static Jpeg& of(j_common_ptr info) { return *static_cast<Jpeg*>(info->client_data); }

  [[noreturn]] void fail() {
    errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), message_);
    leave();
  }

  // Files in the wild have a few bytes too many and are whole all the same; all other warnings are of pixels
  // that are missing or made up.
  void hear(int level) {
    const int code = errors_.msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_JFIF_MAJOR && code != JWRN_ADOBE_XFORM) {
      fail();
    }
  }

  void count_scans() {
    if (info_.input_scan_number <= kMostScans) return;
    std::snprintf(message_, sizeof message_, "more than %d scans", kMostScans);
    leave();
  }

  void read_header() override {
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
    jpeg_read_header(&info_, TRUE);
    shape_ = {info_.jpeg_color_space == JCS_GRAYSCALE ? 1U : 3U, info_.image_height, info_.image_width};
  }

  void begin_rows() override {
    const J_COLOR_SPACE is = info_.jpeg_color_space;
    const bool grey = is == JCS_GRAYSCALE || (is == JCS_YCbCr && wanted_ == 1);
    const bool inks = is == JCS_CMYK || is == JCS_YCCK;
    info_.out_color_space = grey ? JCS_GRAYSCALE : inks ? JCS_CMYK : JCS_RGB;
    started_ = true;
    jpeg_start_decompress(&info_);
    samples_ = static_cast<std::size_t>(info_.output_components);
  }

  void read_rows() override {
    for (; row_ < shape_.rows; ++row_) {
      JSAMPROW to = into_.data() + row_ * shape_.cols * samples_;
      jpeg_read_scanlines(&info_, &to, 1);
    }
    // Adobe's programs write inks the other way round, and everybody follows them. Bytes are as Adobe's from
    // here on: 255 is no ink.
    if (is_cmyk() && info_.saw_Adobe_marker == FALSE) {
      for (std::uint8_t& ink : into_) ink = static_cast<std::uint8_t>(255 - ink);
    }
    jpeg_finish_decompress(&info_);
  }

  Bytes file_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
};
static_assert(JMSG_LENGTH_MAX <= 256, "libjpeg's messages must fit");

class Png final : public Decoder {
 public:
  explicit Png(Bytes file) : rest_(file) {}
  ~Png() override { png_destroy_read_struct(&png_, &info_, nullptr); }

 private:
  static void on_error(png_structp png, png_const_charp message) {
    auto& self = *static_cast<Png*>(png_get_error_ptr(png));
    std::snprintf(self.message_, sizeof self.message_, "%s", message);
    self.leave();
  }
  // Of colour profiles, times and texts, which nobody here needs.
  static void on_warning(png_structp, png_const_charp) {}

  static void on_read(png_structp png, png_bytep to, std::size_t bytes) {
    auto& self = *static_cast<Png*>(png_get_io_ptr(png));
    if (bytes > self.rest_.size()) png_error(png, "the file ends too early");
    std::memcpy(to, self.rest_.data(), bytes);
    self.rest_ = self.rest_.subspan(bytes);
  }

  void read_header() override {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      std::snprintf(message_, sizeof message_, "libpng has no memory, or is not the one of its headers");
      leave();
    }
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, info_);
    const bool colour = (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) != 0;
    shape_ = {colour ? 3U : 1U, png_get_image_height(png_, info_), png_get_image_width(png_, info_)};
  }

  void begin_rows() override {
    started_ = true;
    png_set_expand(png_);
    png_set_scale_16(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    samples_ = png_get_channels(png_, info_);
  }

  void read_rows() override {
    for (int pass = 0; pass < passes_; ++pass) {
      for (row_ = 0; row_ < shape_.rows; ++row_) {
        png_read_row(png_, into_.data() + row_ * shape_.cols * samples_, nullptr);
      }
    }
    png_read_end(png_, nullptr);
  }

  Bytes rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
};

bool begins_with(Bytes file, std::string_view magic) {
  return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
}

// The file's decoder, with the header read.
std::unique_ptr<Decoder> open_decoder(Bytes file, const std::string& path, std::size_t most_pixels) {
  std::unique_ptr<Decoder> decoder;
  if (begins_with(file, "\xFF\xD8\xFF")) {
    decoder = std::make_unique<Jpeg>(file);
  } else if (begins_with(file, "\x89PNG\r\n\x1a\n")) {
    decoder = std::make_unique<Png>(file);
  } else {
    throw DataError(fmt::format(
        "{}: {}", path, file.empty() ? "the file is empty" : "this is neither a JPEG nor a PNG file"));
  }
  if (!decoder->header()) throw DataError(fmt::format("{}: {}", path, decoder->what()));
  const auto& shape = decoder->shape();
  if (shape.rows == 0 || shape.cols == 0 || shape.rows > most_pixels / shape.cols) {
    throw DataError(fmt::format("{}: header: an image of {} x {} pixels; at most {} are taken", path,
                                shape.cols, shape.rows, most_pixels));
  }
  return decoder;
}

struct Colour {
  unsigned red, green, blue;

  unsigned grey() const { return (299 * red + 587 * green + 114 * blue + 500) / 1000; }
};

// `part` of 255 of a value, and of what lies behind it the rest.
unsigned over(unsigned value, unsigned part, unsigned behind) {
  return (value * part + behind * (255 - part) + 127) / 255;
}

Colour colour_of(const std::uint8_t* s, std::size_t samples, bool cmyk) {
  constexpr unsigned kWhite = 255;
  switch (samples) {
    case 1:
      return {s[0], s[0], s[0]};
    case 2: {
      const unsigned grey = over(s[0], s[1], kWhite);
      return {grey, grey, grey};
    }
    case 3:
      return {s[0], s[1], s[2]};
    default:
      if (cmyk) return {over(s[0], s[3], 0), over(s[1], s[3], 0), over(s[2], s[3], 0)};
      return {over(s[0], s[3], kWhite), over(s[1], s[3], kWhite), over(s[2], s[3], kWhite)};
  }
}

}  // namespace

ImageShape image_shape(Bytes file, const std::string& path, std::size_t most_pixels) {
  return open_decoder(file, path, most_pixels)->shape();
}

DecodedImage decode_image(Bytes file, const std::string& path, std::size_t channels,
                          std::size_t most_pixels) {
  TUTTI_CHECK(channels == 1 || channels == 3, "{} channels", channels);
  const auto decoder = open_decoder(file, path, most_pixels);
  DecodedImage image{decoder->shape(), {}};
  image.shape.channels = channels;
  bool good = decoder->start(channels);
  std::vector<std::uint8_t> rows(good ? image.shape.plane() * decoder->samples() : 0);
  good = good && decoder->rows(rows);
  if (!good) throw DataError(fmt::format("{}: {}", path, decoder->what()));
  const std::size_t plane = image.shape.plane();
  const std::size_t samples = decoder->samples();
  if (channels == 1 && samples == 1) {
    image.pixels = std::move(rows);
    return image;
  }
  image.pixels.resize(image.shape.pixels());
  std::uint8_t* to = image.pixels.data();
  for (std::size_t p = 0; p < plane; ++p) {
    const Colour c = colour_of(rows.data() + p * samples, samples, decoder->is_cmyk());
    if (channels == 1) {
      to[p] = static_cast<std::uint8_t>(c.grey());
    } else {
      to[p] = static_cast<std::uint8_t>(c.red);
      to[plane + p] = static_cast<std::uint8_t>(c.green);
      to[2 * plane + p] = static_cast<std::uint8_t>(c.blue);
    }
  }
  return image;
}

}  // namespace tutti::data
