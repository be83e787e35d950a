// Files as numpy.save writes them, for tests.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace tutti::data::fixture {

// Version 1 of the format. `shape` is what stands between its parentheses: "8, 2", and "8," for one
// dimension.
template <typename T>
std::string npy(const std::string& descr, const std::string& shape, const std::vector<T>& values,
                const std::string& order = "False") {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}), }}", descr, order, shape);
  header.resize((header.size() + 10 + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  file += {1, 0, static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  file += header;
  return file + std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace tutti::data::fixture
