#include "operator/kube/json_text.h"

#include <nlohmann/json.hpp>

namespace lockstep::kube {

nlohmann::json parse_object(std::string_view text, const JsonPaths* fields) {
  if (fields != nullptr) return nlohmann::json::parse(keep_paths(text, *fields), nullptr, false);
  using Event = nlohmann::json::parse_event_t;
  return nlohmann::json::parse(
      text.begin(), text.end(),
      [](int, Event event, nlohmann::json& parsed) { return event != Event::key || parsed != "managedFields"; }, false);
}

const nlohmann::json* value_at(const nlohmann::json& object, std::initializer_list<const char*> path) {
  const nlohmann::json* at = &object;
  for (const char* name : path) {
    const auto* members = at->get_ptr<const nlohmann::json::object_t*>();
    if (members == nullptr) return nullptr;
    const auto it = members->find(name);
    if (it == members->end()) return nullptr;
    at = &it->second;
  }
  return at;
}

std::string text_at(const nlohmann::json& object, std::initializer_list<const char*> path) {
  const nlohmann::json* value = value_at(object, path);
  const auto* text = value == nullptr ? nullptr : value->get_ptr<const nlohmann::json::string_t*>();
  return text == nullptr ? std::string() : *text;
}

std::int64_t integer_at(const nlohmann::json& object, std::initializer_list<const char*> path, std::int64_t otherwise) {
  const nlohmann::json* value = value_at(object, path);
  return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : otherwise;
}

}  // namespace lockstep::kube
