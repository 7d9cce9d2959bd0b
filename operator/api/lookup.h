// Reads JSON that may hold anything: a missing key is null, a value of a wrong type has no keys.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::api {

// The value of `key` in `object`; null if `object` is no object or lacks the key. Valid as long as `object`.
const nlohmann::json& at(const nlohmann::json& object, const char* key);
inline const nlohmann::json& at(const nlohmann::json& object, const std::string& key) {
  return at(object, key.c_str());
}

// The text of a string; "" for anything else.
std::string text_of(const nlohmann::json& value);

}  // namespace lockstep::api
