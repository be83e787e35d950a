#include "checkpoint/safetensors.h"

#include "base/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  return fuzz::try_to([&] {
    const auto file = fuzz::bytes_of(data, size);
    const auto content = checkpoint::parse_safetensors(file, "input");
    // What was accepted can be written, and is the same again.
    const auto again = checkpoint::to_safetensors(content.tensors, content.metadata);
    const auto reread = checkpoint::parse_safetensors(again, "again");
    TUTTI_CHECK(checkpoint::parameters_digest(reread.tensors) ==
                checkpoint::parameters_digest(content.tensors));
    const checkpoint::SafetensorsFile stored(fuzz::File(file).path());
    for (const auto& tensor : content.tensors) {
      TUTTI_CHECK(stored.at(tensor.name).shape == tensor.shape, "found again by its name");
    }
    fuzz::try_to([&] { (void)stored.at("no such tensor"); });
  });
}
