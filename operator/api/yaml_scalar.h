// The value of a plain scalar of YAML by kubectl's rules, and the check for UTF-8; private to this room.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep::api {

// The value of an unquoted scalar: null, a boolean, a number, or the text itself. A number that JSON cannot express
// (infinity, not a number) is the text as well.
nlohmann::json resolve_plain_scalar(const std::string& text);

// The position of the first byte that is not UTF-8; npos if all bytes are.
size_t find_invalid_utf8(std::string_view text);

}  // namespace lockstep::api
