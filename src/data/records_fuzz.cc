// Text files of records and of words: the first byte says whose, the rest is the file.
#include "base/fuzz_input.h"
#include "data/criteo.h"
#include "data/gpcr.h"
#include "data/sdss.h"
#include "data/text_format.h"

namespace {

void read_all(const tutti::data::Format& format, const std::string& path) {
  using tutti::data::Part;
  tutti::data::PartFiles sources;
  sources[Part::training] = {path};
  sources[Part::test] = {path};
  const auto fields = format.native_fields(sources);
  const auto prepared = format.prepare(sources, fields, {});
  for (const Part part : tutti::data::kParts) {
    const auto samples = format.open(prepared.files[part], fields);
    std::vector<std::vector<std::byte>> memory;
    for (const auto& f : samples->fields()) memory.emplace_back(f.bytes());
    std::vector<std::span<std::byte>> into(memory.begin(), memory.end());
    for (std::uint32_t i = 0; i < samples->size(); ++i) samples->decode(std::vector{i}, into);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const fuzz::File file(fuzz::bytes_of(data + 1, size - 1));
  return fuzz::try_to([&] {
    switch (data[0] % 4) {
      case 0:
        return read_all(data::CriteoFormat(), file.path());
      case 1:
        return read_all(data::GpcrFormat(), file.path());
      case 2:
        return read_all(data::SdssFormat(), file.path());
      default:
        return read_all(data::TextFormat(data::TextFormat::Parts::files), file.path());
    }
  });
}
