// Files of images and of labels: the first byte says which, the rest is the file.
#include "base/fuzz_input.h"
#include "data/cifar.h"
#include "data/idx.h"
#include "data/idx_images.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const fuzz::File file(fuzz::bytes_of(data + 1, size - 1));
  constexpr std::size_t kLimit = 1 << 20;
  return fuzz::try_to([&] {
    switch (data[0] % 4) {
      case 0:
        return void(data::IdxFile::open(file.path(), data::IdxKind::images, kLimit));
      case 1:
        return void(data::IdxFile::open(file.path(), data::IdxKind::labels, kLimit));
      case 2:
        return void(data::prepare_idx(file.path(), kLimit));
      default: {
        const std::string files[] = {file.path()};
        const data::CifarImages images(files, 10);
        for (std::size_t i = 0; i < images.size(); ++i) TUTTI_CHECK(images.label(i) < 10);
      }
    }
  });
}
