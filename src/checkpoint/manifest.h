// manifest.json: what a checkpoint consists of, with a digest of every part and of itself.
//
//   {"files": {"model.safetensors": {"bytes": 1234, "sha256": "..."}, ...},
//    "format": 1,
//    "manifest_sha256": "...",                  over the text of all the rest, written the same way
//    "meta": {...},                             the trainer's: seed, model, strategy
//    "step": 100,
//    "tensors": {"model.safetensors": {"fc.weight": {"begin": 128, "end": 160, "sha256": "..."}, ...}, ...}}
//
// begin and end are places in the file, so that damage has a name even where the header is damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace tutti::checkpoint {

inline constexpr int kManifestFormat = 1;

struct StoredTensor {
  std::string name;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string sha256;
};

struct StoredFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;
  std::vector<StoredTensor> tensors;  // in the order of their places
};

struct Manifest {
  std::int64_t step = 0;
  nlohmann::json meta;
  std::vector<StoredFile> files;
};

StoredFile describe(const std::string& name, const SafetensorsLayout& layout);

// Throws RunError if meta holds text that is not UTF-8 or is nested too deep to be read again.
std::string to_text(const Manifest& manifest);

// Accepts only text that to_text could have written, so that any changed byte is found. Throws DataError that
// begins with `where`.
Manifest parse_manifest(const std::string& text, const std::string& where);

// Compares a file's bytes with the manifest's digest. Throws DataError, one line: `where`, and the damaged
// tensor or "header" with its bytes.
void verify(const StoredFile& stored, std::span<const std::byte> content, const std::string& where);

}  // namespace tutti::checkpoint
