// In place of folder_format.cc, where libjpeg or libpng are missing.
#include "base/error.h"
#include "data/own_data.h"

namespace tutti::data {

namespace {

DatasetInfo folder_dataset(std::string_view path, const OwnDataOptions& /*options*/) {
  throw ConfigError(
      fmt::format("data images:{}: this tutti was built without libjpeg and libpng, which it needs", path));
}

}  // namespace

OwnDataKind images_data() {
  return {"images:", "images:FOLDER", "JPEG and PNG files, a folder a class", folder_dataset};
}

}  // namespace tutti::data
