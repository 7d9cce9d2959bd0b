// Labelled images in TFRecords as the dataset of a model.
#pragma once

#include <cstdint>

#include "trainer/models/model.h"

namespace lockstep::trainer::models {

struct ImageShape {
  std::int64_t pixels = 32;   // rows and columns of every image
  std::int64_t classes = 10;  // labels are below it
};

// Reads the folders that the options name: files whose names begin with "train" are trained on, those that begin with
// "test" or "validation" are held out. kInvalid: none to train on; the sentence names the folder. Other errors are
// those of reading (data/image_source.h).
Result<Dataset> open_images(const DataOptions& options, const ImageShape& shape);

}  // namespace lockstep::trainer::models
