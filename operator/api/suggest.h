// What a person may have meant by a name that is not known. Private to this room.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::api {

// The one of `known` that differs least from `name`; empty when none is near.
std::optional<std::string_view> nearest(std::string_view name, const std::vector<std::string_view>& known);

// Where in spec a field of this name is: "spec.restart.maxRestarts"; "" when it is nowhere, or only inside lists.
std::string place_of_field(const nlohmann::json& schema, const std::string& name);

}  // namespace lockstep::api
