#include "trainer/data/example.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/sanitizer.h"
#include "tests/trainer/data/record_files.h"

namespace lockstep::trainer::data {
namespace {

using testing::bytes_of;

TEST(Example, an_image_and_its_label_return) {
  const auto parsed = parse_image_example(to_payload({.encoded = std::string("a\0b", 3), .label = -7})).value();
  EXPECT_EQ(parsed.encoded, std::string("a\0b", 3));
  EXPECT_EQ(parsed.label, -7);
}

TEST(Example, has_what_other_readers_look_at_in_the_same_bytes_each_time) {
  const ImageExample example{.encoded = "J", .label = 5, .text = "zebra fish", .height = 7, .width = 300};
  const std::vector<std::byte> payload = to_payload(example);
  const std::string text(reinterpret_cast<const char*>(payload.data()), payload.size());
  for (const char* part : {"image/class/text", "zebra fish", "image/height", "image/width"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(parse_image_example(payload).value().label, 5);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(to_payload(example), payload);
}

// Written by hand: an Example of one map entry {"image/encoded": bytes_list ["J"]}, then one of the label 5, unpacked.
TEST(Example, the_wire_format_is_that_of_tensorflow) {
  const std::string image = std::string("\x0a\x16\x0a\x0d") + "image/encoded" + "\x12\x05\x0a\x03\x0a\x01J";
  const std::string label = std::string("\x0a\x19\x0a\x11") + "image/class/label" + "\x12\x04\x1a\x02\x08\x05";
  const std::string features = image + label;
  const std::string example = std::string("\x0a") + static_cast<char>(features.size()) + features;
  const auto parsed = parse_image_example(bytes_of(example));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->encoded, "J");
  EXPECT_EQ(parsed->label, 5);
}

TEST(Example, what_is_missing_is_named) {
  EXPECT_EQ(parse_image_example({}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(parse_image_example({}).error().message,
            "the tf.Example has no feature 'image/encoded' with one string of bytes");
  EXPECT_EQ(parse_image_example(bytes_of("\x0a\xff")).error().message, "the record is not a tf.Example");
  const std::string image = std::string("\x0a\x18\x0a\x16\x0a\x0d") + "image/encoded" + "\x12\x05\x0a\x03\x0a\x01J";
  EXPECT_EQ(parse_image_example(bytes_of(image)).error().message,
            "the tf.Example has no feature 'image/class/label' with one integer");
}

TEST(Example, any_bytes_are_an_example_or_an_error) {
  const std::uint64_t seed = testing::fresh_seed();
  SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < sanitizer::cases(5000); ++round) {
    std::vector<std::byte> bytes = to_payload({.encoded = std::string(random() % 30, 'x'), .label = 3});
    for (std::uint64_t i = random() % 5; i > 0; --i) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    bytes.resize(bytes.size() - random() % 3);
    const auto parsed = parse_image_example(bytes);
    if (!parsed) {
      // A wrong byte may also be in the name of a feature.
      ASSERT_TRUE(parsed.error().code == ErrorCode::kCorrupt || parsed.error().code == ErrorCode::kInvalid);
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer::data
