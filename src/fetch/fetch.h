// Getting a data set into a data root, and telling whether a copy of it is whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "data/catalogue.h"
#include "fetch/source.h"

namespace tutti::fetch {

// Puts the set's files into its folder under `root`, each as the source holds it, plain or gzipped; unpacked
// if the set's files are never gzipped. Files that are there and whole are left alone. A file appears only
// once its content has been verified, in one rename, so an attempt that fails leaves nothing behind but the
// files that had arrived whole. Blocks; throws DataError if a file is missing from the source or is not what
// it should be, RunError if a download or npm fails.
data::LocatedDataset fetch(const data::DatasetInfo& info, const std::filesystem::path& root,
                           const Source& source, const ProgressFn& progress = {},
                           const SourceOptions& options = {});

// Throws DataError, naming the first file whose decoded content has not the length and SHA-256 of the
// catalogue, or else the files that are missing, though a run may do without them.
void verify(const data::DatasetInfo& info, const data::LocatedDataset& located);

// The same for one file that is in memory; `from` is for messages.
void verify_content(const data::DatasetFile& file, std::span<const std::byte> bytes, const std::string& from);

}  // namespace tutti::fetch
