#include "data/image_folder.h"

#include <algorithm>
#include <cmath>

#include "base/crypto.h"
#include "base/error.h"

namespace tutti::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLayout =
    "it wants a folder for each class: FOLDER/CLASS/*.jpg and *.png, or FOLDER/train/CLASS and "
    "FOLDER/test/CLASS";

bool is_image(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

// What is in a folder, sorted, without what is hidden.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with('.')) entries.push_back(*at);
  }
  if (error) throw DataError(fmt::format("cannot read {}: {}", folder.string(), error.message()));
  std::ranges::sort(entries, {}, [](const auto& entry) { return entry.path(); });
  return entries;
}

bool is_folder(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored);
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> folders;
  for (const auto& entry : entries_of(folder)) {
    if (is_folder(entry)) folders.push_back(entry.path());
  }
  return folders;
}

// Links to folders are not followed below a class: they might lead round in a circle.
void gather(const fs::path& root, const fs::path& folder, std::size_t label, std::vector<ImageFile>& into) {
  for (const auto& entry : entries_of(folder)) {
    if (is_folder(entry)) {
      if (!entry.is_symlink()) gather(root, entry.path(), label, into);
    } else if (is_image(entry.path())) {
      into.push_back({entry.path().lexically_relative(root).string(), label});
    }
  }
}

// The images of one class, none of them empty.
std::vector<ImageFile> images_of(const fs::path& root, const fs::path& folder, std::size_t label) {
  std::vector<ImageFile> images;
  gather(root, folder, label, images);
  if (images.empty()) {
    throw DataError(fmt::format(
        "{}: no file in it ends in .jpg, .jpeg or .png; remove the folder, or put images of this class there",
        folder.string()));
  }
  return images;
}

// Which of a class's images are for tests: those whose paths have the smallest digests, so that most stay
// where they are when others are added.
std::vector<bool> draw_tests(const std::vector<ImageFile>& images, double share) {
  const auto n = images.size();
  const auto wish = static_cast<std::size_t>(std::llround(share * static_cast<double>(n)));
  const std::size_t tests = n < 2 ? 0 : std::clamp<std::size_t>(wish, 1, n - 1);
  std::vector<std::pair<Digest, std::size_t>> order;
  for (std::size_t i = 0; i < n; ++i) {
    order.emplace_back(sha256(std::as_bytes(std::span(images[i].path))), i);
  }
  std::ranges::sort(order);
  std::vector<bool> drawn(n);
  for (std::size_t i = 0; i < tests; ++i) drawn[order[i].second] = true;
  return drawn;
}

// FOLDER/train is a part if there are folders in it; else it is a class of that name, of railways perhaps.
bool is_part(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder, ignored) && !folders_in(folder).empty();
}

}  // namespace

ImageFolder list_images(const fs::path& folder, double test_share) {
  const bool parts = is_part(folder / "train");
  const fs::path training = parts ? folder / "train" : folder;
  fs::path test;
  for (const char* name : {"test", "val"}) {
    if (parts && test.empty() && is_part(folder / name)) test = folder / name;
  }
  ImageFolder found;
  const auto put = [&](Part part, const ImageFile& image) {
    found.parts[static_cast<std::size_t>(part)].push_back(image);
  };
  for (const fs::path& of_class : folders_in(training)) {
    const auto images = images_of(folder, of_class, found.classes.size());
    found.classes.push_back(of_class.filename().string());
    const auto tests = test.empty() ? draw_tests(images, test_share) : std::vector<bool>(images.size());
    for (std::size_t i = 0; i < images.size(); ++i) put(tests[i] ? Part::test : Part::training, images[i]);
  }
  if (found.classes.empty()) {
    throw DataError(fmt::format("{}: there are no folders in it; {}", training.string(), kLayout));
  }
  if (found.classes.size() == 1) {
    throw DataError(fmt::format("{}: all images are of one class, '{}': there is nothing to tell apart; {}",
                                training.string(), found.classes[0], kLayout));
  }
  for (const fs::path& of_class : test.empty() ? std::vector<fs::path>{} : folders_in(test)) {
    const auto known = std::ranges::find(found.classes, of_class.filename().string());
    if (known == found.classes.end()) {
      throw DataError(
          fmt::format("{}: there is no class of this name in {}", of_class.string(), training.string()));
    }
    const auto label = static_cast<std::size_t>(known - found.classes.begin());
    for (const auto& image : images_of(folder, of_class, label)) put(Part::test, image);
  }
  if (found[Part::test].empty()) {
    throw DataError(
        fmt::format("{}: one image a class is too few for a training and a test part", training.string()));
  }
  return found;
}

}  // namespace tutti::data
