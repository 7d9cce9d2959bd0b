// The fuzz target on small random changes of a JPEG and of a record that holds it.
#include <gtest/gtest.h>

#include "tests/fuzz/on_small_changes.h"
#include "trainer/data/example.h"
#include "trainer/data/jpeg.h"

extern "C" int image_record_fuzz(const std::uint8_t* data, std::size_t size);

namespace lockstep::trainer::data {
namespace {

TEST(ImageRecordFuzz, records_with_small_changes_do_no_harm) {
  Image image{.height = 24, .width = 17, .pixels = std::vector<std::uint8_t>(24 * 17 * 3)};
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<std::uint8_t>(i * 37);
  const std::string jpeg = encode_jpeg(image, 90).value();
  const std::vector<std::byte> payload =
      to_payload({.encoded = jpeg, .label = 7, .text = "a cat", .height = 24, .width = 17});
  const std::string record(reinterpret_cast<const char*>(payload.data()), payload.size());
  run_on_small_changes(image_record_fuzz, {jpeg, record}, all_bytes(), 10'000);
}

}  // namespace
}  // namespace lockstep::trainer::data
