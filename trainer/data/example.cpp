#include "trainer/data/example.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>
#include <utility>

#include "example.pb.h"

namespace lockstep::trainer::data {

namespace {

constexpr char kEncoded[] = "image/encoded", kLabel[] = "image/class/label", kText[] = "image/class/text",
               kHeight[] = "image/height", kWidth[] = "image/width";

// The only way to tell a feature that is not there from an empty one.
const wire::Feature* find(const wire::Example& example, const char* name) {
  const auto& features = example.features().feature();
  const auto found = features.find(name);
  return found == features.end() ? nullptr : &found->second;
}

Error lacks(const char* name, const char* kind) {
  return fail(ErrorCode::kInvalid, fmt::format("the tf.Example has no feature '{}' with one {}", name, kind));
}

}  // namespace

Result<ImageExample> parse_image_example(std::span<const std::byte> payload) {
  wire::Example example;
  if (payload.size() > std::numeric_limits<int>::max() ||
      !example.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return fail(ErrorCode::kCorrupt, "the record is not a tf.Example");
  }
  const wire::Feature* encoded = find(example, kEncoded);
  if (encoded == nullptr || encoded->bytes_list().value_size() != 1) return lacks(kEncoded, "string of bytes");
  const wire::Feature* label = find(example, kLabel);
  if (label == nullptr || label->int64_list().value_size() != 1) return lacks(kLabel, "integer");
  return ImageExample{.encoded = encoded->bytes_list().value(0), .label = label->int64_list().value(0)};
}

std::vector<std::byte> to_payload(const ImageExample& example) {
  wire::Example message;
  auto& features = *message.mutable_features()->mutable_feature();
  features[kEncoded].mutable_bytes_list()->add_value(example.encoded);
  features[kLabel].mutable_int64_list()->add_value(example.label);
  if (!example.text.empty()) features[kText].mutable_bytes_list()->add_value(example.text);
  if (example.height > 0) features[kHeight].mutable_int64_list()->add_value(example.height);
  if (example.width > 0) features[kWidth].mutable_int64_list()->add_value(example.width);
  std::vector<std::byte> payload(message.ByteSizeLong());
  google::protobuf::io::ArrayOutputStream array(payload.data(), static_cast<int>(payload.size()));
  google::protobuf::io::CodedOutputStream coded(&array);
  coded.SetSerializationDeterministic(true);  // a map has no order of its own
  message.SerializeToCodedStream(&coded);
  return payload;
}

}  // namespace lockstep::trainer::data
