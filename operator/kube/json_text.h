// Reads JSON of unknown shape: a value that is missing or of another type counts as absent.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "operator/base/json_paths.h"

namespace lockstep::kube {

// The object of a server's text, cut to `fields`. Null: all but managedFields, a third of its bytes, which no code here
// reads. A text that is no JSON becomes a value that is no object; what `fields` leave out is not checked.
nlohmann::json parse_object(std::string_view text, const JsonPaths* fields = nullptr);

// The value at object[path[0]][path[1]]..., or null.
const nlohmann::json* value_at(const nlohmann::json& object, std::initializer_list<const char*> path);
// The string there, or "".
std::string text_at(const nlohmann::json& object, std::initializer_list<const char*> path);
// The integer there, or `otherwise`.
std::int64_t integer_at(const nlohmann::json& object, std::initializer_list<const char*> path,
                        std::int64_t otherwise = 0);

}  // namespace lockstep::kube
