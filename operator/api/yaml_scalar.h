// What a plain scalar of YAML means to kubectl, and what text is; private to this room.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep::api {

// The value of an unquoted scalar: null, a boolean, a number, or the text itself. A number that JSON cannot express
// (infinity, not a number) is the text as well.
nlohmann::json resolve_plain_scalar(const std::string& text);

// Where the first byte is that is not part of UTF-8; npos when all of it is text.
size_t find_invalid_utf8(std::string_view text);

}  // namespace lockstep::api
