#include "checkpoint/manifest.h"

#include "base/crypto.h"
#include "base/fuzz_input.h"

namespace {

// What a manifest that was accepted says of its files is held against files of no good.
void verify_files(const tutti::checkpoint::Manifest& manifest) {
  using namespace tutti;
  for (const auto& file : manifest.files) {
    if (file.bytes > 4096) continue;
    for (const std::uint64_t bytes : {file.bytes, file.bytes + 1, file.bytes / 2}) {
      fuzz::try_to([&] { checkpoint::verify(file, std::vector<std::byte>(bytes), file.name); });
    }
  }
}

void read(const std::string& text) {
  using namespace tutti;
  fuzz::try_to([&] {
    const auto manifest = checkpoint::parse_manifest(text, "input");
    TUTTI_CHECK(checkpoint::to_text(manifest) == text, "only what to_text writes is accepted");
    verify_files(manifest);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  // And what a digest would not stop.
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return 0;
  json.erase("manifest_sha256");
  try {
    const std::string rest = json.dump(1) + "\n";
    json["manifest_sha256"] = tutti::sha256_hex(std::as_bytes(std::span(rest)));
    read(json.dump(1) + "\n");
  } catch (const nlohmann::json::exception&) {  // no text that could be written again
  }
  return 0;
}
