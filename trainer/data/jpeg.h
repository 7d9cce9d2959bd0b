// JPEG images to pixels, by libjpeg-turbo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::trainer::data {

struct ImageSize {
  std::int64_t height = 0, width = 0;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// The most that a photograph may have before it is cut; 300 MB of memory for each thread that decodes.
inline constexpr ImageSize kLargestPhotograph{.height = 10'000, .width = 10'000};

struct Image {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // (height, width, 3): red, green, blue
};

// One thread at a time.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();

  // Decodes into `image`, whose memory is used again. Grey images get three equal channels. The same bytes give the
  // same pixels on every processor. kInvalid: the header says that the image has more rows or columns than `most`; then
  // `image` has its size, and no memory was taken for pixels. kCorrupt: not a JPEG, damaged, or with colours that have
  // no RGB (CMYK); the sentence is the library's. kExhausted: no memory.
  Status decode(std::span<const std::byte> encoded, const ImageSize& most, Image& image);

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

// The JPEG of an image, to make data sets and tests. `quality`: 1 to 100, at which it is encoded without subsampling.
// kInvalid: the library's reason.
Result<std::string> encode_jpeg(const Image& image, int quality);

}  // namespace lockstep::trainer::data
