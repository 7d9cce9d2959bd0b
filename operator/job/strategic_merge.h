// Strategic merge patches over a pod, as `kubectl patch --type=strategic` applies them. Maps are merged, and null
// removes a key. Lists of named things are merged by their key; other lists are replaced. {"$patch": "delete"} or
// {"$patch": "replace"} removes or replaces the map or list entry that it stands in.
//
// Stricter than kubectl where kubectl would silently do something else than what was asked. Other directives, a
// directive where there is nothing to act upon, and a directive in a list that is not merged are refused.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "operator/base/result.h"

namespace lockstep::job {

// The pod that results from `patch` over `original`. `path` stands in front of the names in sentences
// ("podTemplate"). kInvalid with a sentence that names the place in the patch. Pure; any thread.
Result<nlohmann::json> strategic_merge(const nlohmann::json& original, const nlohmann::json& patch,
                                       const std::string& path);

// The field by which entries of the list `field` of a pod are merged; nullptr for a list that is replaced as a whole.
const char* merge_key(std::string_view field);

}  // namespace lockstep::job
