#include "train/open_data.h"

#include "base/crypto.h"
#include "base/error.h"
#include "base/random.h"
#include "data/synthetic.h"
#include "train/plan.h"

namespace tutti::train {

std::vector<Field> fields_of(const Setup& setup) {
  if (!setup.fields.empty()) return setup.fields;
  return models::find_model(setup.config.model).fields(options_of(setup.config));
}

std::unique_ptr<data::Samples> open_samples(const Setup& setup, Part part) {
  const auto fields = fields_of(setup);
  const auto p = static_cast<std::size_t>(part);
  if (setup.config.data == kSynthetic) {
    return std::make_unique<data::SyntheticSamples>(fields, kSyntheticSamples[p],
                                                    mix_seed({setup.config.seed, p}));
  }
  return data::open(data::find_dataset(setup.config.data, own_data_of(setup.config)), setup.files[part],
                    fields);
}

std::string digest_of_data(const Setup& setup) {
  Sha256 digest;
  if (setup.config.data == kSynthetic) {
    const auto fields = fields_of(setup);
    digest.update(fmt::format("{} of {}, {} and {}, seed {}", kSynthetic, data::text_of(fields),
                              kSyntheticSamples[0], kSyntheticSamples[1], setup.config.seed));
    return to_hex(digest.digest());
  }
  for (const Part part : data::kParts) {
    for (const auto& file : setup.files[part]) {
      const Mapping content = map_file(file);
      // With its length, so that moving a byte from one file to the next is a change.
      digest.update(fmt::format("{} {}\n", static_cast<std::size_t>(part), content.bytes().size()));
      digest.update(content.bytes());
    }
  }
  return to_hex(digest.digest());
}

models::Batch as_tensors(std::span<const std::span<const std::byte>> fields,
                         const std::vector<Field>& described, std::size_t count, bool channels_last) {
  models::Batch batch;
  for (std::size_t f = 0; f < described.size(); ++f) {
    std::vector<std::int64_t> shape = {static_cast<std::int64_t>(count)};
    shape.insert(shape.end(), described[f].shape.begin(), described[f].shape.end());
    auto tensor = torch::from_blob(const_cast<std::byte*>(fields[f].data()), shape,
                                   described[f].type == DType::f32 ? torch::kFloat32 : torch::kInt64);
    if (channels_last && shape.size() == 4) {
      // With one channel both orders are the same bytes; strides alone tell libtorch which kernels to take.
      tensor = shape[1] == 1 ? tensor.as_strided(shape, {shape[2] * shape[3], 1, shape[3], 1})
                             : tensor.contiguous(torch::MemoryFormat::ChannelsLast);
    }
    batch.push_back(tensor);
  }
  return batch;
}

}  // namespace tutti::train
