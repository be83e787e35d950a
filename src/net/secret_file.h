// A secret that the user keeps in a file.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "net/auth.h"

namespace tutti::net {

// Why nobody may rely on this file or folder being the user's alone; empty: he may.
std::string why_not_private(const struct stat& about);

// What the user's file says. It must be a plain file of this user that nobody else may read or write. Throws
// ConfigError that says what it is instead, and begins with `setting`, which named the file.
Secret read_secret_file(const std::filesystem::path& path, const std::string& setting);

}  // namespace tutti::net
