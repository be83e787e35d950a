// In place of folder_format.cc, where libjpeg or libpng are missing.
#include "base/error.h"
#include "data/folder_format.h"

namespace tutti::data {

DatasetInfo folder_dataset(std::string_view path, const OwnDataOptions& /*options*/) {
  throw ConfigError(
      fmt::format("data images:{}: this tutti was built without libjpeg and libpng, which it needs", path));
}

}  // namespace tutti::data
