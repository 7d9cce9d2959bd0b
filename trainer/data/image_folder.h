// Labelled images as files: a folder with a sub-folder of JPEGs for each class. `lockstep data pack` reads it, and so
// does a trainer that is given the folder itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "trainer/data/sampler.h"

namespace lockstep::trainer::data {

inline constexpr std::uint64_t kMaxImageBytes = std::uint64_t{256} << 20;  // of a file: a larger one is refused

struct FolderImage {
  std::string path;
  std::size_t label = 0;  // of ImageFolder::classes
};

struct ImageFolder {
  std::vector<std::string> classes;  // names of the sub-folders, in the order of their bytes
  std::vector<FolderImage> images;   // by class, then by name
  std::size_t others = 0;            // files that are no .jpg or .jpeg, and are left out
};

// The sub-folders of `folder` in the order of their names, without hidden ones: paths. Errors as cannot_read_data().
Result<std::vector<std::string>> sub_folders(const std::string& folder);

// The .jpg and .jpeg files of each sub-folder, several of which are listed at a time. Hidden names are left out.
// kInvalid: there is no sub-folder, or one has no such file. Other errors are those of visit() with `patience`. The
// sentence names the folder.
Result<ImageFolder> list_images(const std::string& folder, Duration patience);

// The order in which the images of a data set are stored, and which of them are held out: the first ones.
inline constexpr std::uint64_t kSetSeed = 1;
inline constexpr int kHeldOutPercent = 10;

// Of `count` images: at(i) is the number of the image at place i. Pure.
Permutation set_order(std::size_t count, std::uint64_t seed);
// The number of the places that are held out. Pure.
std::size_t held_out_of(std::size_t count, int percent);

}  // namespace lockstep::trainer::data
