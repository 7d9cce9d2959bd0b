// Anything at all as a record of a data set of images. It is refused, or it is an example whose image has the size that
// its pixels have.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "trainer/data/example.h"
#include "trainer/data/jpeg.h"

extern "C" int image_record_fuzz(const std::uint8_t* data, std::size_t size);

namespace {

void decode(std::span<const std::byte> encoded) {
  using namespace lockstep::trainer::data;
  JpegDecoder decoder;
  Image image;
  constexpr ImageSize kMost{128, 128};
  if (!decoder.decode(encoded, kMost, image)) return;
  const bool fits = image.height > 0 && image.height <= kMost.height && image.width > 0 && image.width <= kMost.width;
  if (!fits || image.pixels.size() != static_cast<std::size_t>(3 * image.height * image.width)) std::abort();
}

}  // namespace

extern "C" int image_record_fuzz(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto example = lockstep::trainer::data::parse_image_example(bytes)) {
    decode(std::as_bytes(std::span(example->encoded)));
  }
  decode(bytes);
  return 0;
}
