#include "data/published.h"

#include "data/cifar.h"
#include "data/criteo.h"
#include "data/gpcr.h"
#include "data/idx_images.h"
#include "data/sdss.h"
#include "data/text_format.h"

namespace tutti::data {
namespace {

// Both sets have the same shape and the same file names; only the content differs.
DatasetInfo like_mnist(const std::string& name, std::string title, ChannelStatistics pixels,
                       std::string address, const std::array<const char*, 4>& sha256) {
  return {.name = name,
          .title = std::move(title),
          .folder = name,
          .address = std::move(address),
          .gzip = true,
          .files = {{"train-images-idx3-ubyte", sha256[0], 16 + 60'000 * 28 * 28, Part::training},
                    {"train-labels-idx1-ubyte", sha256[1], 8 + 60'000, Part::training},
                    {"t10k-images-idx3-ubyte", sha256[2], 16 + 10'000 * 28 * 28, Part::test},
                    {"t10k-labels-idx1-ubyte", sha256[3], 8 + 10'000, Part::test}},
          .format = std::make_shared<IdxFormat>(ImageKind{{1, 28, 28}, 10, {pixels}})};
}

DatasetFile cifar_batch(std::string name, const char* sha256, Part part, bool optional = false) {
  return {std::move(name), sha256, std::uint64_t{10'000} * 3073, part, optional};
}

DatasetInfo cifar10() {
  return {
      .name = "cifar10",
      .title = "CIFAR-10 photographs of ten kinds of things",
      .folder = "cifar10",
      .address = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
      .gzip = false,
      .files =
          {cifar_batch("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                       Part::training),
           cifar_batch("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                       Part::training, true),
           cifar_batch("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                       Part::training, true),
           cifar_batch("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                       Part::training, true),
           cifar_batch("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                       Part::training, true),
           cifar_batch("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
                       Part::test)},
      .format = std::make_shared<CifarFormat>(
          ImageKind{CifarImages::kShape, 10, {{0.4914F, 0.2470F}, {0.4822F, 0.2435F}, {0.4465F, 0.2616F}}})};
}

DatasetInfo sdss(std::string name, std::string title, DatasetFile file) {
  return {.name = std::move(name),
          .title = std::move(title),
          .folder = "sdss",
          .address = "",
          .gzip = true,
          .files = {std::move(file)},
          .format = std::make_shared<SdssFormat>()};
}

DatasetInfo gpcr() {
  return {.name = "gpcr",
          .title = "GPCR protein sequences of 86 subfamilies",
          .folder = "gpcr",
          .address = "",
          .gzip = true,
          .files = {{"train.txt", "43526acca85e4628c134406eea45b20da1b2475aee3a2ab4218d02df6d437c9e", 835'264,
                     Part::training},
                    {"test.txt", "e9844d1c17f099df7fef7b18f30b4091f8dfd99ae5a5d1feb6497ba0a6ababd1", 622'433,
                     Part::test}},
          .format = std::make_shared<GpcrFormat>()};
}

DatasetInfo wikitext2() {
  return {.name = "wikitext-2",
          .title = "WikiText-2, articles of an encyclopedia",
          .folder = "wikitext-2",
          .address = "",
          .gzip = true,
          .files = {{"train.txt", "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
                     10'797'148, Part::training},
                    {"test.txt", "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
                     1'256'449, Part::test},
                    {"valid.txt", "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
                     1'121'681, std::nullopt}},
          .format = std::make_shared<TextFormat>(TextFormat::Parts::files)};
}

DatasetInfo criteo() {
  return {.name = "criteo",
          .title = "Criteo clicks on advertisements, a sample",
          .folder = "criteo",
          .address = "",
          .gzip = true,
          .files = {{"train.csv", "2b0614035f6c931dc4ac2c1a1a26fa954f2b9231703f3a77bcdd53d9d9f29872",
                     1'744'474, Part::training},
                    {"test.csv", "3a7a78b694945482aede520e68300b0e2748603363072822cfbbb9f72d0dfd9a", 95'122,
                     Part::test},
                    {"dev.csv", "7ac8a164e43a9903be3d43e640bcd464cfa0d96d7a652ec8ef8a33fe97cac6b9", 98'922,
                     std::nullopt}},
          .format = std::make_shared<CriteoFormat>()};
}

}  // namespace

std::vector<DatasetInfo> published_datasets() {
  return {
      like_mnist("mnist", "MNIST handwritten digits", {0.1307F, 0.3081F},
                 "https://ossci-datasets.s3.amazonaws.com/mnist/",
                 {"ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                  "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                  "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                  "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}),
      like_mnist("fashion-mnist", "Fashion-MNIST articles of clothing", {0.2860F, 0.3530F},
                 "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                 {"c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                  "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                  "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                  "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"}),
      cifar10(),
      sdss("sdss", "SDSS DR14 stars, galaxies and quasars",
           {"dr14.csv", "6e2389dd300a825a068db04f59ca246280c78f4798bd5ddca38e8ca54ba7ce15", 1'636'507,
            Part::training}),
      sdss("sdss-dr17", "SDSS DR17 stars, galaxies and quasars",
           {"dr17.csv", "bbbb1f5fdd37f0eed5992bbf58818109b2b9d87343255b77f26d5d9b00e871c5", 2'934'026,
            Part::training}),
      gpcr(),
      wikitext2(),
      criteo(),
  };
}

}  // namespace tutti::data
