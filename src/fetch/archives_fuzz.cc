// Gzip and tar.
#include "base/fuzz_input.h"
#include "data/gzip.h"
#include "fetch/tar.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const auto input = fuzz::bytes_of(data, size);
  fuzz::try_to([&] {
    for (const auto& member : fetch::list_tar(input, "input")) {
      TUTTI_CHECK(member.content.data() >= input.data() &&
                  member.content.data() + member.content.size() <= input.data() + input.size());
    }
  });
  return fuzz::try_to([&] { data::decode_gzip(input, "input", 1 << 20); });
}
