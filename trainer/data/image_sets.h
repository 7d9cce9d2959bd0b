// The labelled images that --data names, whatever form they have: folders of TFRecords, or a folder of images.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/data/image_store.h"

namespace lockstep::trainer::data {

struct ImageSetOptions {
  std::vector<std::string> paths;
  OnDamage on_damage = OnDamage::kFail;           // of a record's length
  Duration patience = std::chrono::seconds(120);  // for storage that does not answer
  int threads = 1;                                // that read the index of TFRecords
  OpenFile open = open_data_file;
};

struct ImageSets {
  std::shared_ptr<const ImageStore> training, held_out;
  std::string form;          // for people: "4 files", "images of 10 sub-folders"
  std::int64_t classes = 0;  // of a folder of images, whose labels begin at 0; 0: the labels stand in records
};

// Opens what the paths name:
//   folders with files whose names begin with "train" (TFRecords to train on), "test" or "validation" (held-out ones)
//   one folder with sub-folders of JPEGs, one for each class, and no such file. Its images are in the order, and split
//   as, `lockstep data pack` does by default (image_folder.h)
// kInvalid: there is nothing to train on, or several folders of which one has images; the sentence names the folder.
// Other errors are those of ImageRecords::index(), list_images() and look_at_files().
Result<ImageSets> open_image_sets(const ImageSetOptions& options);

}  // namespace lockstep::trainer::data
