// Labelled images as files: a folder with a sub-folder for each class.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::trainer::pack {

struct FolderImage {
  std::string path;
  std::size_t label = 0;  // of ImageFolder::classes
};

struct ImageFolder {
  std::vector<std::string> classes;  // names of the sub-folders, in the order of their bytes
  std::vector<FolderImage> images;   // by class, then by name
  std::size_t others = 0;            // files that are no .jpg or .jpeg, and are left out
};

// The .jpg and .jpeg files of each sub-folder. Hidden names are left out. kInvalid: there is no sub-folder, or one has
// no such file. kNotFound, kForbidden, kUnavailable: it cannot be read. The sentence names the folder.
Result<ImageFolder> list_images(const std::string& folder);

}  // namespace lockstep::trainer::pack
