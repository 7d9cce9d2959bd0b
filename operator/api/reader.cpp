#include "operator/api/reader.h"

#include <fmt/format.h>

namespace lockstep::api {
namespace {

const Json& empty_object() {
  static const Json object = Json::object();
  return object;
}

}  // namespace

Reader::Reader(const Json& json, std::string path, std::optional<Error>& error)
    : json_(&json), path_(std::move(path)), error_(&error) {
  if (json.is_object()) return;
  json_ = &empty_object();
  if (!json.is_null()) refuse(path_.empty() ? "the object" : path_, "be an object");
}

const Json* Reader::find(const char* key) const {
  const auto it = json_->find(key);
  return it == json_->end() || it->is_null() ? nullptr : &*it;
}

void Reader::refuse(const std::string& name, const std::string& must) const {
  if (!*error_) *error_ = fail(ErrorCode::kInvalid, name + " must " + must);
}

void Reader::read(const char* key, std::string& out) const {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_string()) return refuse(name_of(key), "be a string");
  out = value->get_ref<const std::string&>();
}

void Reader::read(const char* key, bool& out) const {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_boolean()) return refuse(name_of(key), "be true or false");
  out = value->get<bool>();
}

template <typename Integer>
void Reader::read_integer(const Json& value, const std::string& name, Integer& out) const {
  if (!value.is_number_integer()) return refuse(name, "be an integer");
  constexpr auto kMin = std::numeric_limits<Integer>::min();
  constexpr auto kMax = std::numeric_limits<Integer>::max();
  const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMax)
                                               : value.get<std::int64_t>() >= kMin && value.get<std::int64_t>() <= kMax;
  if (!fits) return refuse(name, fmt::format("be an integer between {} and {}", kMin, kMax));
  out = value.get<Integer>();
}

void Reader::read(const char* key, std::int32_t& out) const {
  if (const Json* value = find(key)) read_integer(*value, name_of(key), out);
}

void Reader::read(const char* key, std::int64_t& out) const {
  if (const Json* value = find(key)) read_integer(*value, name_of(key), out);
}

void Reader::read(const char* key, std::optional<std::int32_t>& out) const {
  if (std::int32_t value = 0; has(key)) read(key, value), out = value;
}

void Reader::read(const char* key, std::optional<std::int64_t>& out) const {
  if (std::int64_t value = 0; has(key)) read(key, value), out = value;
}

void Reader::read(const char* key, std::optional<WallTime>& out) const {
  std::string text;
  if (!has(key)) return;
  read(key, text);
  auto time = parse_timestamp(text);
  if (!time) return refuse(name_of(key), "be an RFC 3339 time");
  out = *time;
}

void Reader::read(const char* key, std::vector<std::string>& out) const {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_array()) return refuse(name_of(key), "be a list of strings");
  std::vector<std::string> items;
  for (const Json& item : *value) {
    if (!item.is_string()) return refuse(fmt::format("{}[{}]", name_of(key), items.size()), "be a string");
    items.push_back(item.get_ref<const std::string&>());
  }
  out = std::move(items);
}

void Reader::read(const char* key, std::vector<std::int32_t>& out) const {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_array()) return refuse(name_of(key), "be a list of integers");
  std::vector<std::int32_t> items;
  for (const Json& item : *value) {
    std::int32_t number = 0;
    read_integer(item, fmt::format("{}[{}]", name_of(key), items.size()), number);
    items.push_back(number);
  }
  out = std::move(items);
}

void Reader::read(const char* key, Labels& out) const {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_object()) return refuse(name_of(key), "be an object of strings");
  Labels labels;
  for (const auto& [name, text] : value->items()) {
    if (!text.is_string()) return refuse(name_of(key) + "." + name, "be a string");
    labels.emplace(name, text.get_ref<const std::string&>());
  }
  out = std::move(labels);
}

void Reader::read_quantity(const char* key, std::string& out) const {
  const Json* value = find(key);
  if (value != nullptr && value->is_number_integer()) {
    out = value->dump();
  } else {
    read(key, out);
  }
}

void Reader::read_object(const char* key, Json& out) const {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_object()) return refuse(name_of(key), "be an object");
  out = *value;
}

void Reader::read_objects(const char* key, Json& out) const {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_array()) return refuse(name_of(key), "be a list of objects");
  for (size_t i = 0; i < value->size(); ++i) {
    if (!(*value)[i].is_object()) return refuse(fmt::format("{}[{}]", name_of(key), i), "be an object");
  }
  out = *value;
}

Reader Reader::child(const char* key) const {
  const Json* value = find(key);
  return {value == nullptr ? empty_object() : *value, name_of(key), *error_};
}

std::vector<Reader> Reader::children(const char* key) const {
  std::vector<Reader> readers;
  const Json* value = find(key);
  if (value == nullptr) return readers;
  if (!value->is_array()) {
    refuse(name_of(key), "be a list of objects");
    return readers;
  }
  readers.reserve(value->size());
  for (const Json& item : *value)
    readers.emplace_back(item, fmt::format("{}[{}]", name_of(key), readers.size()), *error_);
  return readers;
}

}  // namespace lockstep::api
