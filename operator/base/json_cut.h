// Cuts JSON text into its parts without reading them: an object into members, an array into elements. Strings are
// skipped and brackets are paired; the reader of a part checks whether it is valid JSON.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace lockstep {

// Calls `visit` with the key, as it is written between its quotes, and the text of each member, in their order, until
// `visit` returns false. False when `object` is not an object from its first to its last character; `visit` has then
// seen a part of it. A call that `visit` ended is true.
bool each_member(std::string_view object,
                 const std::function<bool(std::string_view key, std::string_view value)>& visit);

// The same for the elements of an array.
bool each_element(std::string_view array, const std::function<bool(std::string_view value)>& visit);

// The text of object[path[0]][path[1]]..., or "" when it is not there. Of keys that are twice there, the first counts.
std::string_view cut_at(std::string_view object, std::initializer_list<std::string_view> path);

// The characters of a string's text; "" when it is no string.
std::string characters_of(std::string_view value);

}  // namespace lockstep
