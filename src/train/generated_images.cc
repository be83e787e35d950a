#include "train/generated_images.h"

#include <fmt/format.h>

#include "base/file.h"
#include "data/png.h"
#include "models/gan_mnist.h"

namespace tutti::train {
namespace {

constexpr std::int64_t kAcross = 8;
constexpr std::int64_t kMargin = 1;

// Row by row into one image, with a black margin around each.
torch::Tensor tiled(const torch::Tensor& images) {
  const auto framed = torch::constant_pad_nd(images, {kMargin, kMargin, kMargin, kMargin});
  const auto rows = framed.size(1);
  const auto columns = framed.size(2);
  return framed.view({kAcross, kAcross, rows, columns})
      .transpose(1, 2)
      .reshape({kAcross * rows, kAcross * columns});
}

}  // namespace

void save_generated_images(models::Model& model, const std::filesystem::path& run_folder, std::int64_t step) {
  auto* generative = dynamic_cast<models::Generative*>(&model);
  if (generative == nullptr) return;
  const auto image =
      tiled(generative->draw(kAcross * kAcross)).mul(255).round().to(torch::kUInt8).contiguous();
  const std::span pixels(image.data_ptr<std::uint8_t>(), static_cast<std::size_t>(image.numel()));
  std::filesystem::create_directories(run_folder / "samples");
  write_file_atomically(run_folder / "samples" / fmt::format("step-{:08}.png", step),
                        data::encode_png(pixels, static_cast<std::uint32_t>(image.size(1)),
                                         static_cast<std::uint32_t>(image.size(0))));
}

}  // namespace tutti::train
