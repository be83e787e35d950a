// For tests: an encoder of tar archives.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace tutti::fetch::fixture {

inline std::string tar_header(const std::string& name, std::size_t size, char type = '0') {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  block.replace(124, 11, fmt::format("{:011o}", size));
  block.replace(148, 8, "        ");
  block[156] = type;
  block.replace(257, 8,
                std::string("ustar\0"
                            "00",
                            8));
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  block.replace(148, 7, fmt::format("{:06o}", sum) + std::string(1, '\0'));
  return block;
}

inline std::string tar_member(const std::string& name, std::string content, char type = '0') {
  std::string header = tar_header(name, content.size(), type);
  content.resize((content.size() + 511) / 512 * 512);
  return header + content;
}

inline std::string tar_of(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string archive;
  for (const auto& [name, content] : files) archive += tar_member(name, content);
  return archive + std::string(1024, '\0');
}

}  // namespace tutti::fetch::fixture
