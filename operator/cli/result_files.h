// Files of a benchmark's results.
#pragma once

#include <filesystem>
#include <string>

#include "operator/base/result.h"

namespace lockstep::cli {

// The bytes of a file; empty: it cannot be read.
std::string content(const std::filesystem::path& path);

// Replaces the file: after a crash it is the whole new one or the one before. kUnavailable: it cannot be written.
Status write_file(const std::filesystem::path& path, const std::string& text);

// The folder and those above it. kUnavailable: it cannot be created.
Status create_folder(const std::filesystem::path& folder);

// kInvalid: says that the stored result of a cell is not of what is asked for, and what to do.
Error not_continued(const std::filesystem::path& path, const std::string& why);

}  // namespace lockstep::cli
