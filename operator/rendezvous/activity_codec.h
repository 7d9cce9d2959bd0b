// Activities as JSON: arrays, because a heartbeat carries one for each of up to 1,024 processes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "operator/base/result.h"
#include "operator/rendezvous/activity.h"

namespace lockstep::rendezvous {

nlohmann::json write_activity(const Activity& activity);
nlohmann::json write_ranks(const std::vector<RankActivity>& ranks);

// kInvalid with a sentence for anything that is not exactly that, is out of range, or has more than `most` ranks. What
// a later version may append to an activity is ignored.
Result<Activity> read_activity(const nlohmann::json& json);
Result<std::vector<RankActivity>> read_ranks(const nlohmann::json& json, std::size_t most);

}  // namespace lockstep::rendezvous
