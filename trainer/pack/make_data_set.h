// Data sets that the trainer reads, made from a folder of images or from a seed. docs/data.md has the format.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "operator/base/result.h"
#include "trainer/data/image_folder.h"
#include "trainer/data/jpeg.h"
#include "trainer/pack/progress.h"

namespace lockstep::trainer::pack {

struct Common {
  std::string out;                                       // the folder to create
  int test_percent = data::kHeldOutPercent;              // of the images are held out
  std::uint64_t seed = data::kSetSeed;                   // of the order, the split and synthetic images
  std::uint64_t shard_bytes = std::uint64_t{128} << 20;  // of a file, about
  bool files = false;                                    // a file for each image (data/image_folder.h), no TFRecords
  bool terminal = false;                                 // draw progress on standard error
};

struct PackOptions {
  Common common;
  std::string folder;  // of images
};

struct SynthOptions {
  Common common;
  std::int64_t images = 0;
  std::int64_t side = 224;  // pixels
  std::int64_t classes = 10;
  int quality = 90;  // of the JPEGs
};

// What was made.
struct Made {
  std::int64_t training = 0, held_out = 0;  // images
  std::size_t classes = 0;
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  data::ImageSize least, most;  // over all images, rows and columns apart
  std::size_t left_out = 0;     // files of the folder that are no JPEG by their name
};

// Puts the bytes of each image into a record, in an order drawn from the seed. kInvalid: the folder has not the form of
// data/image_folder.h, or a file is no JPEG that can be decoded; the sentence names it. kCancelled: `stop` became true.
// Other errors are those of reading and of DataSetWriter. After an error nothing is left of the output.
Result<Made> pack_images(const PackOptions& options, const std::atomic<bool>& stop);

// Makes images, a pure function of the options: the same files for the same seed. Errors as pack_images().
Result<Made> synthesize_images(const SynthOptions& options, const std::atomic<bool>& stop);

}  // namespace lockstep::trainer::pack
