// Labelled JPEG images by number, wherever they are stored: the seam between image_source.h and storage.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/data/damage.h"
#include "trainer/data/data_file.h"
#include "trainer/data/example.h"

namespace lockstep::trainer::data {

// What a thread needs again for each image that it reads.
struct StoredImage {
  ImageExample example;            // its JPEG and its label
  std::vector<std::byte> payload;  // of a record
};

// Any number of threads.
class ImageStore {
 public:
  virtual ~ImageStore() = default;

  virtual std::size_t count() const = 0;
  // Of what the numbers stand for: other images, or the same in another order, have another one.
  virtual std::uint64_t fingerprint() const = 0;
  // Of their bytes, too: of fingerprint(), and of path, size and time of change of each file.
  virtual std::uint64_t version() const = 0;
  // Images that are fast to read one after the other: how many each such block has, in the order of numbers. All blocks
  // but the last of a file have at least `bytes`.
  virtual std::vector<std::int64_t> blocks(std::uint64_t bytes) const = 0;

  // Reads the image `number` (< count()) into `to`. kCorrupt: damage of its bytes; kInvalid: it is no image of this
  // data set, or its file was written to. The sentence begins with where(). Other errors are those of PatientReader.
  // An intact result is what was stored when the store was opened.
  virtual Status read(std::size_t number, PatientReader& reader, const std::atomic<bool>& abort,
                      StoredImage& to) const = 0;
  virtual const std::string& path(std::size_t number) const = 0;        // of its file
  virtual std::uint64_t offset(std::size_t number) const = 0;           // in its file
  virtual std::string where(std::size_t number) const = 0;              // for sentences: "data 'x' at offset 5"
  virtual std::vector<Damage> damage_at_opening() const { return {}; }  // that was skipped
};

}  // namespace lockstep::trainer::data
