#include "operator/api/lookup.h"

namespace lockstep::api {

const nlohmann::json& at(const nlohmann::json& object, const char* key) {
  static const nlohmann::json none;
  const auto it = object.find(key);
  return it == object.end() ? none : *it;
}

std::string text_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace lockstep::api
