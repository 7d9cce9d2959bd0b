// A folder of small labelled images, as --data names it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "trainer/core/random.h"
#include "trainer/data/example.h"
#include "trainer/data/jpeg.h"
#include "trainer/data/tfrecord.h"

namespace lockstep::trainer::testing {

enum class Kind {
  kCifar,        // 32 x 32 pixels, labels from 0
  kPhotographs,  // each of another size, labels from 1
};

// The JPEG of image `i`, of class i modulo 10: an image of class c is brighter than one of class c - 1.
inline std::string jpeg_of(std::int64_t i, Kind kind) {
  data::Image image{.height = 32, .width = 32};
  if (kind == Kind::kPhotographs) image = {.height = 40 + i % 7, .width = 37 + i % 11};
  image.pixels.resize(static_cast<size_t>(image.height * image.width * 3));
  for (size_t k = 0; k < image.pixels.size(); ++k) {
    const double noise = 20 * core::uniform(static_cast<std::uint64_t>(i), k);
    image.pixels[k] = static_cast<std::uint8_t>(20 * static_cast<double>(i % 10) + noise);
  }
  return data::encode_jpeg(image, 90).value();
}

// A TFRecord of `count` images.
inline void write_images(const std::filesystem::path& file, std::int64_t count, Kind kind) {
  const std::int64_t first = kind == Kind::kPhotographs ? 1 : 0;
  std::vector<std::byte> content;
  for (std::int64_t i = 0; i < count; ++i) {
    data::append_record(data::to_payload({.encoded = jpeg_of(i, kind), .label = i % 10 + first}), content);
  }
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

// A folder of `count` images in files: class-3/13.jpg.
inline std::string files_of_images(const std::filesystem::path& folder, std::int64_t count, Kind kind = Kind::kCifar) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::filesystem::path of_class = folder / ("class-" + std::to_string(i % 10));
    std::filesystem::create_directories(of_class);
    std::ofstream(of_class / (std::to_string(i) + ".jpg"), std::ios::binary) << jpeg_of(i, kind);
  }
  return folder.string();
}

// The folder, with `training` and `held_out` images.
inline std::string image_folder(const std::filesystem::path& folder, std::int64_t training, std::int64_t held_out,
                                Kind kind = Kind::kCifar) {
  std::filesystem::create_directories(folder);
  write_images(folder / "train-0", training, kind);
  if (held_out > 0) write_images(folder / "test-0", held_out, kind);
  std::ofstream(folder / "README") << "not a record";
  return folder.string();
}

}  // namespace lockstep::trainer::testing
