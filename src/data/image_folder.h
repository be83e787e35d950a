// What lies in a folder of images of one's own: a folder a class.
//
//   FOLDER/CLASS/...          all of it, of which a share of each class is for tests
//   FOLDER/train/CLASS/...    with FOLDER/test or else FOLDER/val beside it, or, without either, split as
//   above
//
// Images are files that end in .jpg, .jpeg or .png, in any case, at any depth below their class. Other files
// are passed over, and so is what is hidden (".name").
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "data/format.h"

namespace tutti::data {

struct ImageFile {
  std::string path;  // below the folder
  std::size_t label = 0;
};

struct ImageFolder {
  std::vector<std::string> classes;  // the names of their folders, in order; a label is a place here
  std::array<std::vector<ImageFile>, 2> parts;

  const std::vector<ImageFile>& operator[](Part part) const { return parts[static_cast<std::size_t>(part)]; }
};

// Opens no file. In the order of classes and then of paths, whatever the order on disk. Of each class that is
// split, at least one image stays for training, and, if there are two, one is for tests; which, is drawn from
// their paths alone. Throws DataError that names the folder: it cannot be read, there are no classes or just
// one, a class has no images or is among the tests alone, there is nothing to test with.
ImageFolder list_images(const std::filesystem::path& folder, double test_share);

}  // namespace tutti::data
