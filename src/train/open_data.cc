#include "train/open_data.h"

#include "base/crypto.h"
#include "base/error.h"
#include "base/random.h"
#include "data/synthetic.h"
#include "models/model_info.h"
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

std::string digest_of_model(const config::TrainConfig& config) {
  const auto file = models::own_file(config.model);
  return file.empty() ? "" : sha256_hex(map_file(file).bytes());
}

}  // namespace tutti::train
