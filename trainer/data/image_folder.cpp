#include "trainer/data/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "trainer/core/random.h"
#include "trainer/data/data_file.h"
#include "trainer/data/visit.h"

namespace lockstep::trainer::data {

namespace {

namespace fs = std::filesystem;

// The entries of a folder in the order of their names, without hidden ones.
Result<std::vector<fs::directory_entry>> entries_of(const std::string& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with(".")) entries.push_back(*it);
  }
  if (error) return cannot_read_data(folder, error.value());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_jpeg(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg";
}

struct ClassFiles {
  std::vector<std::string> images;
  std::size_t others = 0;
};

Result<ClassFiles> images_in(const std::string& folder) {
  LOCKSTEP_TRY(const auto entries, entries_of(folder));
  ClassFiles files;
  for (const fs::directory_entry& entry : entries) {
    if (is_jpeg(entry.path())) {
      files.images.push_back(entry.path().string());
    } else {
      ++files.others;
    }
  }
  return files;
}

}  // namespace

Result<std::vector<std::string>> sub_folders(const std::string& folder) {
  LOCKSTEP_TRY(const auto entries, entries_of(folder));
  std::vector<std::string> folders;
  for (const fs::directory_entry& entry : entries) {
    std::error_code error;
    const bool is_folder = entry.is_directory(error);
    const bool dangling = error == std::errc::no_such_file_or_directory;
    // A class that is left out would give the others another label.
    if (error && !dangling) return cannot_read_data(entry.path().string(), error.value());
    if (is_folder) folders.push_back(entry.path().string());
  }
  return folders;
}

Result<ImageFolder> list_images(const std::string& folder, Duration patience) {
  const auto folders = std::make_shared<std::vector<std::string>>();  // a thread that hangs owns it
  LOCKSTEP_CHECK_OK(visit("listing", {folder}, patience, [folders, folder](std::size_t) -> Status {
    LOCKSTEP_TRY(*folders, sub_folders(folder));
    return {};
  }));
  const auto listed = std::make_shared<std::vector<ClassFiles>>(folders->size());
  LOCKSTEP_CHECK_OK(visit("listing", *folders, patience, [folders, listed](std::size_t i) -> Status {
    LOCKSTEP_TRY((*listed)[i], images_in((*folders)[i]));
    return {};
  }));
  ImageFolder found;
  for (std::size_t label = 0; label < folders->size(); ++label) {
    const std::string& path = (*folders)[label];
    const std::string name = fs::path(path).filename().string();
    if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < ' '; })) {
      return fail(ErrorCode::kInvalid, fmt::format("the name of a sub-folder of '{}' has a control character", folder));
    }
    ClassFiles& files = (*listed)[label];
    if (files.images.empty()) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("the folder '{}' has no .jpg or .jpeg file; each sub-folder is a class", path));
    }
    for (std::string& image : files.images) found.images.push_back({.path = std::move(image), .label = label});
    found.others += files.others;
    found.classes.push_back(name);
  }
  if (found.classes.empty()) {
    return fail(ErrorCode::kInvalid,
                fmt::format("the folder '{}' has no sub-folders; each sub-folder is a class, with .jpg or .jpeg files",
                            folder));
  }
  return found;
}

Permutation set_order(std::size_t count, std::uint64_t seed) {
  return {static_cast<std::uint64_t>(count), core::derive(seed, "data set")};
}

std::size_t held_out_of(std::size_t count, int percent) {
  return count * static_cast<std::size_t>(percent) / 100;
}

}  // namespace lockstep::trainer::data
