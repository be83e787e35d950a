#include "checkpoint/manifest.h"

#include <algorithm>
#include <tuple>

#include "base/crypto.h"
#include "base/error.h"
#include "checkpoint/strict_json.h"

namespace tutti::checkpoint {

using nlohmann::json;

namespace {

// The one way a manifest is written: keys sorted, one space of indent, a line's end at its end.
std::string canonical(const json& value) {
  return value.dump(1) + "\n";
}

std::string sha256_of_text(const std::string& text) {
  return sha256_hex(std::as_bytes(std::span(text)));
}

json to_json(const Manifest& manifest) {
  json files = json::object();
  json tensors = json::object();
  for (const auto& file : manifest.files) {
    files[file.name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
    json& list = tensors[file.name] = json::object();
    for (const auto& t : file.tensors)
      list[t.name] = {{"begin", t.begin}, {"end", t.end}, {"sha256", t.sha256}};
  }
  return {{"format", kManifestFormat},
          {"step", manifest.step},
          {"meta", manifest.meta},
          {"files", std::move(files)},
          {"tensors", std::move(tensors)}};
}

StoredFile file_from_json(const std::string& name, const json& file, const json& tensors) {
  StoredFile stored{.name = name,
                    .bytes = file.at("bytes").get<std::uint64_t>(),
                    .sha256 = file.at("sha256").get<std::string>(),
                    .tensors = {}};
  for (const auto& [tensor, place] : tensors.items()) {
    stored.tensors.push_back({.name = tensor,
                              .begin = place.at("begin").get<std::uint64_t>(),
                              .end = place.at("end").get<std::uint64_t>(),
                              .sha256 = place.at("sha256").get<std::string>()});
  }
  std::sort(stored.tensors.begin(), stored.tensors.end(),
            [](const auto& a, const auto& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  return stored;
}

std::string part_that_holds(const StoredFile& stored, std::uint64_t byte) {
  for (const auto& t : stored.tensors) {
    if (t.begin <= byte && byte < t.end) return "tensor " + quoted(t.name);
  }
  return "header";
}

}  // namespace

StoredFile describe(const std::string& name, const SafetensorsLayout& layout) {
  StoredFile stored{.name = name, .bytes = layout.bytes(), .sha256 = {}, .tensors = {}};
  Sha256 whole;
  for (const auto piece : layout.pieces()) whole.update(piece);
  stored.sha256 = to_hex(whole.digest());
  std::uint64_t begin = layout.header.size();
  for (const auto& tensor : layout.tensors) {
    const std::uint64_t end = begin + tensor.bytes.size();
    stored.tensors.push_back(
        {.name = tensor.name, .begin = begin, .end = end, .sha256 = sha256_hex(tensor.bytes)});
    begin = end;
  }
  return stored;
}

std::string to_text(const Manifest& manifest) {
  try {
    json all = to_json(manifest);
    all["manifest_sha256"] = sha256_of_text(canonical(all));
    std::string text = canonical(all);
    parse_manifest(text, "meta");
    return text;
  } catch (const json::exception& e) {
    throw RunError(fmt::format("a manifest cannot be written: {}", e.what()));
  } catch (const DataError& e) {
    throw RunError(fmt::format("a manifest could not be read again: {}", e.what()));
  }
}

Manifest parse_manifest(const std::string& text, const std::string& where) {
  try {
    json all = parse_strict(text, where);
    if (!all.is_object() || !all.contains("manifest_sha256"))
      reject(where, "not the manifest of a checkpoint");
    json rest = all;
    rest.erase("manifest_sha256");
    if (all["manifest_sha256"] != sha256_of_text(canonical(rest)) || canonical(all) != text) {
      reject(where, fmt::format("damaged: bytes 0 to {} do not match manifest_sha256", text.size()));
    }
    if (all.at("format") != kManifestFormat) {
      reject(where,
             fmt::format("format {}, but this program reads {}", all["format"].dump(), kManifestFormat));
    }
    Manifest manifest{.step = all.at("step").get<std::int64_t>(), .meta = all.at("meta"), .files = {}};
    for (const auto& [name, file] : all.at("files").items()) {
      manifest.files.push_back(file_from_json(name, file, all.at("tensors").at(name)));
    }
    if (canonical(to_json(manifest)) != canonical(rest)) reject(where, "holds what no manifest has");
    return manifest;
  } catch (const json::exception&) {
    reject(where, "not the manifest of a checkpoint");
  }
}

void verify(const StoredFile& stored, std::span<const std::byte> content, const std::string& where) {
  if (content.size() < stored.bytes) {
    reject(where, fmt::format("damaged: ends at byte {} of {}, within {}", content.size(), stored.bytes,
                              part_that_holds(stored, content.size())));
  }
  if (content.size() > stored.bytes) {
    reject(where, fmt::format("damaged: {} bytes follow its end at byte {}", content.size() - stored.bytes,
                              stored.bytes));
  }
  if (sha256_hex(content) == stored.sha256) return;

  constexpr auto kDamaged = "damaged: {}, bytes {} to {}: SHA-256 differs from the manifest's";
  std::uint64_t header_end = stored.bytes;
  for (const auto& t : stored.tensors) {
    if (t.begin > t.end || t.end > stored.bytes) reject(where, "its manifest places a tensor outside it");
    header_end = std::min(header_end, t.begin);
    if (sha256_hex(content.subspan(t.begin, t.end - t.begin)) != t.sha256) {
      reject(where, fmt::format(kDamaged, "tensor " + quoted(t.name), t.begin, t.end));
    }
  }
  reject(where, fmt::format(kDamaged, "header", 0, header_end));
}

}  // namespace tutti::checkpoint
