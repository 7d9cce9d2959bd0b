// Typed fields of a JSON message, and what several messages have in common; for the codecs alone (agent_codec.cpp,
// coordinator_codec.cpp).
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/result.h"
#include "operator/rendezvous/limits.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

using Json = nlohmann::json;

// Thrown inside a codec for a field that is missing or wrong; its what() goes into the kInvalid.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Reads typed fields out of one JSON object. A field that is absent keeps its default.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {
    if (!object.is_object()) throw Malformed("a message must be an object");
  }

  void read(const char* name, bool& value) const {
    if (const Json* field = find(name)) {
      if (!field->is_boolean()) throw wrong(name, "a boolean");
      value = field->get<bool>();
    }
  }
  void read(const char* name, double& value) const {
    if (const Json* field = find(name)) {
      if (!field->is_number()) throw wrong(name, "a number");
      value = field->get<double>();
    }
  }
  void read(const char* name, std::string& value, std::size_t most = kMaxFrame) const {
    if (const Json* field = find(name)) {
      if (!field->is_string()) throw wrong(name, "a string");
      value = field->get<std::string>();
      if (value.size() > most) throw wrong(name, "shorter");
    }
  }
  template <typename Integer>
  void read(const char* name, Integer& value, std::int64_t least, std::int64_t most) const {
    if (const Json* field = find(name)) value = static_cast<Integer>(integer(name, *field, least, most));
  }
  void read(const char* name, std::vector<std::string>& values) const {
    if (const Json* field = find(name)) {
      if (!field->is_array()) throw wrong(name, "an array");
      for (const Json& item : *field) {
        if (!item.is_string()) throw wrong(name, "an array of strings");
        values.push_back(item.get<std::string>());
      }
    }
  }
  void read(const char* name, std::vector<int>& values) const {
    if (const Json* field = find(name)) {
      if (!field->is_array()) throw wrong(name, "an array");
      for (const Json& item : *field) values.push_back(static_cast<int>(integer(name, item, 0, kMostRanks)));
    }
  }
  void read(const char* name, std::map<std::string, std::string>& values) const {
    if (const Json* field = find(name)) {
      if (!field->is_object()) throw wrong(name, "an object");
      for (const auto& [key, item] : field->items()) {
        if (!item.is_string()) throw wrong(name, "an object of strings");
        values[key] = item.get<std::string>();
      }
    }
  }
  // Null when absent.
  const Json* find(const char* name) const {
    const auto at = object_.find(name);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }

 private:
  static Malformed wrong(const char* name, const char* what) {
    return Malformed(fmt::format("field {} must be {}", name, what));
  }
  static std::int64_t integer(const char* name, const Json& field, std::int64_t least, std::int64_t most) {
    if (!field.is_number_integer()) throw wrong(name, "an integer");
    const auto value = integer_within(field, least, most);
    if (!value) throw wrong(name, "in range");
    return *value;
  }

  const Json& object_;
};

// The value whose name is the field's text; stays as it is where the field is absent.
template <typename Enum, std::size_t N>
void read_enum(const Fields& fields, const char* name, const char* const (&names)[N], Enum& value) {
  std::string text;
  fields.read(name, text);
  if (text.empty()) return;
  for (std::size_t i = 0; i < N; ++i) {
    if (text == names[i]) {
      value = static_cast<Enum>(i);
      return;
    }
  }
  throw Malformed(fmt::format("field {} has an unknown value", name));
}

void put_generation_id(Json& json, const GenerationId& id);
GenerationId read_generation_id(const Fields& fields);
Json write_version(const StateVersion& version);
StateVersion read_version(const Json& json);

// As it goes into a frame: what is no UTF-8 is replaced.
std::string text_of(const Json& json);

// The message that `read(type, fields)` makes of a frame's JSON; kInvalid with what a Malformed says.
template <typename Message, typename Read>
Result<Message> decode_message(std::string_view text, Read read) {
  try {
    const Json json = Json::parse(text);
    const Fields fields(json);
    std::string type;
    fields.read("type", type);
    if (type.empty()) throw Malformed("a message must have a type");
    return read(type, fields);
  } catch (const Malformed& error) {
    return fail(ErrorCode::kInvalid, error.what());
  } catch (const Json::exception&) {
    return fail(ErrorCode::kInvalid, "a frame does not hold JSON");
  }
}

}  // namespace lockstep::rendezvous
