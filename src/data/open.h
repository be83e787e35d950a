// Opening a data set in the form that a model takes.
#pragma once

#include "data/catalogue.h"

namespace tutti::data {

// Throws ConfigError that names both forms if samples of the set cannot be given these fields.
void require_form(const DatasetInfo& info, const std::vector<Field>& wanted);

// The fields as the set has them, with what only its files know. Throws DataError.
std::vector<Field> native_fields(const DatasetInfo& info, const LocatedDataset& located);

// The names of its classes or words, in the order of their numbers; none where the format does not know them.
// Throws DataError.
std::vector<std::string> names_of(const DatasetInfo& info, const LocatedDataset& located);

// For launchers: checks the form and all files, and gives what the processes of this host open. Throws
// ConfigError, DataError.
PlainFiles prepare(const DatasetInfo& info, const LocatedDataset& located, const std::vector<Field>& wanted,
                   const std::filesystem::path& cache = {});

// The samples of the part that `files` make up, which prepare() gave for the same fields. Throws ConfigError,
// DataError.
std::unique_ptr<Samples> open(const DatasetInfo& info, std::span<const std::string> files,
                              const std::vector<Field>& wanted);

}  // namespace tutti::data
