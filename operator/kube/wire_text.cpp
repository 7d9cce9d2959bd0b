#include "operator/kube/wire_text.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "operator/base/timestamp.h"
#include "operator/kube/wire_messages.h"

namespace lockstep::kube {
namespace {

using google::protobuf::internal::WireFormatLite;
using namespace std::string_view_literals;

constexpr std::string_view kMagic = "k8s\0"sv;
constexpr int kAll = -2;                                 // the place of a value of which everything is kept
constexpr std::int64_t kMostSeconds = 9'000'000'000;     // of a time: WallTime counts nanoseconds
constexpr int kWhole = std::numeric_limits<int>::max();  // the library counts bytes in an int

// Calls `visit` with the number of each field and its value: the bytes of one that has a length, the number of a
// varint. A visit that returns false, and bytes that are no message, end it with false.
template <typename Visit>
bool each_field(std::string_view bytes, Visit&& visit) {
  if (bytes.size() > kWhole) return false;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  while (const std::uint32_t tag = in.ReadTag()) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    if (number == 0) return false;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT: {
        std::uint64_t value = 0;
        if (!in.ReadVarint64(&value) || !visit(number, std::optional<std::string_view>(), value)) return false;
        break;
      }
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
        std::uint32_t length = 0;
        if (!in.ReadVarint32(&length)) return false;
        const auto at = static_cast<std::size_t>(in.CurrentPosition());
        if (length > bytes.size() - at || !in.Skip(static_cast<int>(length))) return false;
        if (!visit(number, std::optional(bytes.substr(at, length)), std::uint64_t{0})) return false;
        break;
      }
      default:
        if (!WireFormatLite::SkipField(&in, tag)) return false;
    }
  }
  return in.ConsumedEntireMessage();
}

// The last value of a field that has a length; "" when it is not there.
bool read_bytes(std::string_view message, int wanted, std::string_view& value) {
  return each_field(message, [&](int number, std::optional<std::string_view> bytes, std::uint64_t) {
    if (number == wanted && bytes) value = *bytes;
    return true;
  });
}

std::optional<std::string_view> unwrapped(std::string_view envelope) {
  constexpr int kRaw = 2;
  std::string_view raw;
  if (!is_wire(envelope) || !read_bytes(envelope.substr(kMagic.size()), kRaw, raw)) return std::nullopt;
  return raw;
}

// Writes one object.
class Writer {
 public:
  Writer(const JsonPaths* paths, std::string& json) : paths_(paths), json_(json) {}

  bool write(std::string_view bytes, const WireMessage& message) {
    return object(bytes, message, paths_ == nullptr || paths_->last(0) ? kAll : 0);
  }

 private:
  struct Found {
    const WireField* field;
    int place;
    std::string_view bytes;
    std::uint64_t number;
  };

  // The place behind `key`, or -1: nobody reads it.
  int next(int place, std::string_view key) const {
    if (place == kAll) return kAll;
    const int next = paths_->next(place, key);
    return next >= 0 && paths_->last(next) ? kAll : next;
  }

  // It calls itself, as deep as the table at most.
  bool object(std::string_view bytes, const WireMessage& message, int place) {
    std::vector<Found> found;
    const bool read = each_field(bytes, [&](int number, std::optional<std::string_view> value, std::uint64_t varint) {
      const auto field = std::find_if(message.fields.begin(), message.fields.end(),
                                      [&](const WireField& known) { return known.number == number; });
      if (field == message.fields.end()) return true;
      const bool is_varint = field->kind == WireField::Kind::kNumber || field->kind == WireField::Kind::kTruth;
      if (is_varint == value.has_value()) return false;
      const int inner = next(place, field->name);
      if (inner == -1) return true;
      const bool is_map = field->kind == WireField::Kind::kTextMap || field->kind == WireField::Kind::kQuantityMap;
      if (!found.empty() && found.back().field == &*field && !field->repeated && !is_map) found.pop_back();
      found.push_back({&*field, inner, value.value_or(""), varint});
      return true;
    });
    if (!read) return false;
    // A server writes fields in the order of their numbers; the format promises none.
    const auto before = [](const Found& a, const Found& b) { return a.field < b.field; };
    if (!std::is_sorted(found.begin(), found.end(), before)) std::stable_sort(found.begin(), found.end(), before);
    json_ += '{';
    const std::size_t begin = json_.size();
    for (std::size_t i = 0; i < found.size();) {
      std::size_t end = i + 1;
      while (end < found.size() && found[end].field == found[i].field) ++end;
      if (!member(std::span(found).subspan(i, end - i), begin)) return false;
      i = end;
    }
    json_ += '}';
    return true;
  }

  // All values of one field. `begin`: where the members of its object begin.
  bool member(std::span<const Found> values, std::size_t begin) {
    const Found& last = values.back();
    const WireField& field = *last.field;
    if (field.kind == WireField::Kind::kTextMap || field.kind == WireField::Kind::kQuantityMap) {
      name(field.name, begin);
      return map(values);
    }
    if (field.repeated) {
      name(field.name, begin);
      return array(values);
    }
    switch (field.kind) {
      case WireField::Kind::kText:
        if (last.bytes.empty()) return true;
        name(field.name, begin);
        text(last.bytes);
        return true;
      case WireField::Kind::kNumber:
        if (last.number == 0) return true;
        name(field.name, begin);
        json_ += std::to_string(static_cast<std::int64_t>(last.number));
        return true;
      case WireField::Kind::kTruth:
        if (last.number == 0) return true;
        name(field.name, begin);
        json_ += "true";
        return true;
      case WireField::Kind::kTime:
        return time(last.bytes, field.name, begin);
      default:
        name(field.name, begin);
        return object(last.bytes, *field.message, last.place);
    }
  }

  bool array(std::span<const Found> values) {
    json_ += '[';
    const int place = next(values.front().place, "[]");
    for (const Found& value : values.first(place == -1 ? 0 : values.size())) {
      if (&value != values.data()) json_ += ',';
      if (value.field->kind == WireField::Kind::kText) {
        text(value.bytes);
      } else if (!object(value.bytes, *value.field->message, place)) {
        return false;
      }
    }
    json_ += ']';
    return true;
  }

  bool map(std::span<const Found> entries) {
    constexpr int kKey = 1, kValue = 2, kText = 1;
    json_ += '{';
    const std::size_t begin = json_.size();
    for (const Found& entry : entries) {
      std::string_view key, value;
      if (!read_bytes(entry.bytes, kKey, key) || !read_bytes(entry.bytes, kValue, value)) return false;
      if (next(entry.place, key) == -1) continue;
      if (entry.field->kind == WireField::Kind::kQuantityMap) {
        const std::string_view quantity = value;
        value = {};
        if (!read_bytes(quantity, kText, value)) return false;
      }
      name(key, begin);
      text(value);
    }
    json_ += '}';
    return true;
  }

  // Empty bytes are Go's zero time.
  bool time(std::string_view bytes, std::string_view field, std::size_t begin) {
    constexpr int kSeconds = 1;
    std::int64_t seconds = 0;
    const bool read = each_field(bytes, [&](int number, std::optional<std::string_view>, std::uint64_t value) {
      if (number == kSeconds) seconds = static_cast<std::int64_t>(value);
      return true;
    });
    if (!read) return false;
    if (bytes.empty() || seconds > kMostSeconds || seconds < -kMostSeconds) return true;
    name(field, begin);
    text(format_timestamp(WallTime(std::chrono::seconds(seconds))));
    return true;
  }

  void name(std::string_view key, std::size_t begin) {
    if (json_.size() > begin) json_ += ',';
    text(key);
    json_ += ':';
  }

  void text(std::string_view characters) {
    const bool plain = std::all_of(characters.begin(), characters.end(), [](char character) {
      return character >= ' ' && character < '\x7f' && character != '"' && character != '\\';
    });
    if (plain) {
      json_ += '"';
      json_ += characters;
      json_ += '"';
    } else {
      json_ += nlohmann::json(characters).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
  }

  const JsonPaths* const paths_;
  std::string& json_;
};

std::optional<std::string> written(std::string_view bytes, const WireMessage& message, const JsonPaths* fields) {
  std::string json;
  if (!Writer(fields, json).write(bytes, message)) return std::nullopt;
  return json;
}

}  // namespace

bool is_wire(std::string_view body) {
  return body.substr(0, kMagic.size()) == kMagic;
}

std::optional<std::string> wire_text(std::string_view envelope, const WireMessage& message, const JsonPaths* fields) {
  const auto raw = unwrapped(envelope);
  return raw ? written(*raw, message, fields) : std::nullopt;
}

std::optional<std::string> wire_list(std::string_view envelope, const WireMessage& item, const JsonPaths* fields,
                                     const std::function<void(std::string_view)>& on_item) {
  constexpr int kMetadata = 1, kItems = 2;
  const auto raw = unwrapped(envelope);
  if (!raw) return std::nullopt;
  std::string_view metadata;
  std::vector<std::string_view> items;
  const bool read = each_field(*raw, [&](int number, std::optional<std::string_view> bytes, std::uint64_t) {
    if (number != kMetadata && number != kItems) return true;
    if (!bytes) return false;
    if (number == kMetadata) metadata = *bytes;
    if (number == kItems) items.push_back(*bytes);
    return true;
  });
  if (!read) return std::nullopt;
  auto of_list = written(metadata, list_metadata_message(), nullptr);
  if (!of_list) return std::nullopt;
  for (const std::string_view bytes : items) {
    const auto text = written(bytes, item, fields);
    if (!text) return std::nullopt;
    on_item(*text);
  }
  return of_list;
}

std::optional<WireEvent> wire_event(std::string_view frame) {
  constexpr int kType = 1, kObject = 2, kRaw = 1;
  WireEvent event;
  std::string_view extension;
  const bool read = read_bytes(frame, kType, event.type) && read_bytes(frame, kObject, extension) &&
                    read_bytes(extension, kRaw, event.object);
  if (!read) return std::nullopt;
  return event;
}

}  // namespace lockstep::kube
