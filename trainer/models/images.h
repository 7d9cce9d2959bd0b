// Labelled images as the dataset of a model: in TFRecords, in a folder of files, or synthetic ones.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/models/model.h"

namespace lockstep::trainer::models {

struct ImageShape {
  std::int64_t pixels = 32;  // rows and columns that the network reads
  std::int64_t classes = 10;
  std::int64_t first_label = 0;  // of class 0 in records; in a folder of images it is 0
  bool photographs = false;  // images have any size, and a part of each is cut and resized; false: all have `pixels`
};

// Images of noise if the options ask for synthetic data. Else opens what they name (data/image_sets.h). kInvalid: there
// is nothing to train on, or a folder of images has more classes than the model; the sentence names the folder. Other
// errors are those of reading (data/image_source.h).
Result<Dataset> open_images(const DataOptions& options, const ImageShape& shape);

// Options of the networks for ImageNet, and the data that they ask for.
std::vector<Option> photograph_options(double label_smoothing);
ImageShape photographs(const Settings& settings);
Result<Dataset> open_photographs(const Settings& settings, const DataOptions& options);

}  // namespace lockstep::trainer::models
