// Text files of records and of words: the first byte says whose and, beyond 6, read in which other way; the
// rest is the file.
#include "base/fuzz_input.h"
#include "data/criteo.h"
#include "data/csv.h"
#include "data/gpcr.h"
#include "data/npy.h"
#include "data/sdss.h"
#include "data/text_format.h"

namespace {

void read_all(const tutti::data::Format& format, const std::string& path, bool with_test_file = true) {
  using tutti::data::Part;
  tutti::data::PartFiles sources;
  sources[Part::training] = {path};
  if (with_test_file) sources[Part::test] = {path};
  const auto fields = format.native_fields(sources);
  TUTTI_CHECK(format.can_give(fields), "a format gives what it has");
  if (const auto* names = dynamic_cast<const tutti::data::Names*>(&format)) (void)names->names(sources);
  const auto prepared = format.prepare(sources, fields, {});
  for (const Part part : tutti::data::kParts) {
    const auto samples = format.open(prepared.files[part], fields);
    std::vector<std::vector<std::byte>> memory;
    for (const auto& f : samples->fields()) memory.emplace_back(f.bytes());
    std::vector<std::span<std::byte>> into(memory.begin(), memory.end());
    for (std::uint32_t i = 0; i < samples->size(); ++i) samples->decode(std::vector{i}, into);
  }
}

// A vocabulary of a few words has the unknown one among them.
void cut_words(std::span<const std::byte> text) {
  using namespace tutti;
  auto words = data::Vocabulary::of({reinterpret_cast<const char*>(text.data()), text.size()});
  for (const std::size_t most : {words.size(), std::size_t{3}, std::size_t{1}}) {
    if (most > words.size()) continue;
    words.cut(most);
    TUTTI_CHECK(words.size() == most && words.number("no such word") < most);
  }
}

// X and Y: the first two bytes say where X ends.
int read_arrays(std::span<const std::byte> bytes) {
  using namespace tutti;
  if (bytes.size() < 2) return 0;
  const std::size_t first =
      std::to_integer<std::size_t>(bytes[0]) + 256 * std::to_integer<std::size_t>(bytes[1]);
  const auto rest = bytes.subspan(2);
  const fuzz::File x(rest.first(std::min(first, rest.size())));
  const fuzz::File y(rest.subspan(std::min(first, rest.size())));
  return fuzz::try_to([&] {
    data::PartFiles sources;
    sources[data::Part::training] = {x.path(), y.path()};
    const data::NpyFormat format(0.5);
    const auto fields = format.native_fields(sources);
    TUTTI_CHECK(format.can_give(fields), "a format gives what it has");
    format.prepare(sources, fields, {});
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  if (data[0] % 7 == 5) return read_arrays(fuzz::bytes_of(data + 1, size - 1));
  const fuzz::File file(fuzz::bytes_of(data + 1, size - 1));
  const bool otherwise = data[0] > 6;
  return fuzz::try_to([&] {
    switch (data[0] % 7) {
      case 0:
        return read_all(data::CriteoFormat(), file.path());
      case 1:
        return read_all(data::GpcrFormat(), file.path());
      case 2:
        return read_all(data::SdssFormat(), file.path());
      case 3:
        cut_words(fuzz::bytes_of(data + 1, size - 1));
        return otherwise ? read_all(data::TextFormat(data::TextFormat::Parts::lines), file.path(), false)
                         : read_all(data::TextFormat(data::TextFormat::Parts::files), file.path());
      case 4:
        return read_all(data::CsvFormat({}, 0.5), file.path());
      default:
        return read_all(
            data::CsvFormat(
                otherwise ? data::CsvColumns{.label = "b", .features = {"a", "c"}} : data::CsvColumns{}, 0.5),
            file.path(), /*with_test_file=*/false);
    }
  });
}
