// What the operator did about the end of an attempt: the only place where these words stand.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::api {

// The names are those of status.attempts[].strategy.
enum class Strategy {
  kNone,           // "": no attempt has ended
  kNothing,        // "None": no attempt follows, or none before the job is resumed
  kInPlace,        // the pods stayed, and processes were restarted
  kReplaceFailed,  // a pod was recreated
  kShrink,         // the others continued without a pod
  kGang,           // all pods were recreated
};

// "InPlace" for kInPlace; "" for kNone.
std::string_view name_of(Strategy strategy);
// Empty when no strategy has that name.
std::optional<Strategy> strategy_named(std::string_view name);
// All but kNone, in the order of the enum.
const std::vector<Strategy>& all_strategies();

}  // namespace lockstep::api
