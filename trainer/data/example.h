// An image with its label as a tf.Example, under the names of ImageNet's TFRecords.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::trainer::data {

struct ImageExample {
  std::string encoded;     // image/encoded: a JPEG
  std::int64_t label = 0;  // image/class/label, as it is in the record
  // What people and other readers look at; parse_image_example() leaves them empty.
  std::string text;                    // image/class/text
  std::int64_t height = 0, width = 0;  // image/height, image/width
};

// kCorrupt: the bytes are no tf.Example. kInvalid: they are one of another data set, without one of the two features;
// the sentence names it.
Result<ImageExample> parse_image_example(std::span<const std::byte> payload);

// The payload of a record with these features; text and sizes that are empty or 0 are left out. A pure function.
std::vector<std::byte> to_payload(const ImageExample& example);

}  // namespace lockstep::trainer::data
