// Suggests a known name for an unknown one.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::api {

// The name in `known` that differs least from `name`; empty if none is near.
std::optional<std::string_view> nearest(std::string_view name, const std::vector<std::string_view>& known);

// The place in spec of a field of this name: "spec.restart.maxRestarts"; "" if there is none, or only inside lists.
std::string place_of_field(const nlohmann::json& schema, const std::string& name);

}  // namespace lockstep::api
