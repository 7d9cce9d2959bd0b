#include "operator/cli/result_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

namespace lockstep::cli {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Status write_file(const fs::path& path, const std::string& text) {
  const fs::path fresh = path.string() + ".new";
  std::ofstream file(fresh);
  file << text;
  file.close();
  std::error_code error;
  if (file) fs::rename(fresh, path, error);
  if (file && !error) return {};
  return fail(ErrorCode::kUnavailable, fmt::format("cannot write {}: {}", path.string(),
                                                   error ? error.message() : std::string(std::strerror(errno))));
}

Status create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return fail(ErrorCode::kUnavailable,
              fmt::format("cannot create the folder {}: {}", folder.string(), error.message()));
}

Error not_continued(const fs::path& path, const std::string& why) {
  return fail(
      ErrorCode::kInvalid,
      fmt::format("{} cannot be continued: {}; choose another --output, or remove the file", path.string(), why));
}

}  // namespace lockstep::cli
