// Writes JSON as a server would in protobuf, by the tables of the readers. A member that no table knows is an error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "operator/base/timestamp.h"
#include "operator/kube/wire_text.h"

namespace lockstep::kube::testing {

inline std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7U) bytes.push_back(static_cast<char>(number | 0x80U));
  bytes.push_back(static_cast<char>(number));
  return bytes;
}

inline std::string varint_field(int number, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(number) << 3U) + varint(value);
}

inline std::string bytes_field(int number, std::string_view bytes) {
  return varint(static_cast<std::uint64_t>(number) << 3U | 2U) + varint(bytes.size()) + std::string(bytes);
}

std::string encoded(const nlohmann::json& object, const WireMessage& message);

inline std::string encoded(const nlohmann::json& value, const WireField& field) {
  using Kind = WireField::Kind;
  switch (field.kind) {
    case Kind::kText:
      return bytes_field(field.number, value.get<std::string>());
    case Kind::kNumber:
      return varint_field(field.number, static_cast<std::uint64_t>(value.get<std::int64_t>()));
    case Kind::kTruth:
      return varint_field(field.number, value.get<bool>() ? 1 : 0);
    case Kind::kTime: {
      const auto seconds = std::chrono::floor<std::chrono::seconds>(*parse_timestamp(value.get<std::string>()));
      return bytes_field(field.number, varint_field(1, static_cast<std::uint64_t>(seconds.time_since_epoch().count())));
    }
    case Kind::kTextMap:
    case Kind::kQuantityMap: {
      std::string entries;
      for (const auto& [key, text] : value.items()) {
        auto of = text.get<std::string>();
        if (field.kind == Kind::kQuantityMap) of = bytes_field(1, of);
        entries += bytes_field(field.number, bytes_field(1, key) + bytes_field(2, of));
      }
      return entries;
    }
    case Kind::kMessage:
      return bytes_field(field.number, encoded(value, *field.message));
  }
  throw std::invalid_argument("a kind without a form");
}

inline std::string encoded(const nlohmann::json& object, const WireMessage& message) {
  std::string bytes;
  std::size_t known = 0;
  for (const WireField& field : message.fields) {
    const auto member = object.find(field.name);
    if (member == object.end()) continue;
    ++known;
    if (field.repeated) {
      for (const auto& element : *member) bytes += encoded(element, field);
    } else {
      bytes += encoded(*member, field);
    }
  }
  if (known != object.size()) throw std::invalid_argument("no table has all of " + object.dump());
  return bytes;
}

// In the envelope of an object: runtime.Unknown with its kind and its bytes.
inline std::string enveloped(std::string_view bytes) {
  return std::string("k8s\0", 4) + bytes_field(1, bytes_field(1, "v1") + bytes_field(2, "Pod")) + bytes_field(2, bytes);
}

// A metav1.WatchEvent with its length in front.
inline std::string framed(std::string_view type, std::string_view envelope) {
  const std::string event = bytes_field(1, type) + bytes_field(2, bytes_field(1, envelope));
  std::string frame;
  for (int shift = 24; shift >= 0; shift -= 8) frame.push_back(static_cast<char>(event.size() >> shift));
  return frame + event;
}

}  // namespace lockstep::kube::testing
