// A JPEG or PNG file: the first byte says in how many channels it is wanted, the rest is the file.
#include "base/fuzz_input.h"
#include "data/jpeg_png.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const auto file = fuzz::bytes_of(data + 1, size - 1);
  const std::size_t channels = data[0] % 2 == 0 ? 1 : 3;
  constexpr std::size_t kLimit = 1 << 16;
  return fuzz::try_to([&] {
    const auto shape = data::image_shape(file, "input", kLimit);
    const auto image = data::decode_image(file, "input", channels, kLimit);
    TUTTI_CHECK(image.shape.rows == shape.rows && image.shape.cols == shape.cols);
    TUTTI_CHECK(image.pixels.size() == channels * shape.plane());
  });
}
