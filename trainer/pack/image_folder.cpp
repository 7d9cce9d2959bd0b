#include "trainer/pack/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "trainer/data/data_file.h"

namespace lockstep::trainer::pack {

namespace {

namespace fs = std::filesystem;

// The entries of a folder in the order of their names, without hidden ones.
Result<std::vector<fs::path>> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with(".")) entries.push_back(it->path());
  }
  if (error) return data::cannot_read_data(folder.string(), error.value());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_jpeg(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg";
}

}  // namespace

Result<ImageFolder> list_images(const std::string& folder) {
  ImageFolder found;
  LOCKSTEP_TRY(const auto classes, entries_of(folder));
  for (const fs::path& path : classes) {
    std::error_code ignored;  // what cannot be looked at is no folder
    if (!fs::is_directory(path, ignored)) continue;
    const std::string name = path.filename().string();
    if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < ' '; })) {
      return fail(ErrorCode::kInvalid, fmt::format("the name of a sub-folder of '{}' has a control character", folder));
    }
    const std::size_t before = found.images.size();
    LOCKSTEP_TRY(const auto files, entries_of(path));
    for (const fs::path& file : files) {
      if (is_jpeg(file)) {
        found.images.push_back({.path = file.string(), .label = found.classes.size()});
      } else {
        ++found.others;
      }
    }
    if (found.images.size() == before) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("the folder '{}' has no .jpg or .jpeg file; each sub-folder is a class", path.string()));
    }
    found.classes.push_back(name);
  }
  if (found.classes.empty()) {
    return fail(ErrorCode::kInvalid,
                fmt::format("the folder '{}' has no sub-folders; each sub-folder is a class, with .jpg or .jpeg files",
                            folder));
  }
  return found;
}

}  // namespace lockstep::trainer::pack
