#include "operator/job/placement_constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/lookup.h"
#include "operator/api/quantity.h"
#include "operator/api/suggest.h"
#include "operator/placement/effective_requests.h"

namespace lockstep::job {
namespace {

Error unknown_level(const char* field, const std::string& name, const placement::Profile& profile) {
  const std::string what = fmt::format("spec.placement.{}: unknown level \"{}\"", field, name);
  if (profile.levels.empty()) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}; the operator has no topology, so the only level is {}", what, api::kNodeLevel));
  }
  std::vector<std::string_view> known;
  std::string list;
  for (const placement::Level& level : profile.levels) {
    known.push_back(level.name);
    list += (list.empty() ? "" : ", ") + level.name;
  }
  known.push_back(api::kNodeLevel);
  const auto near = api::nearest(name, known);
  return fail(ErrorCode::kInvalid,
              fmt::format("{}; {} levels are {} and {}", what,
                          near ? fmt::format("did you mean {}? The", *near) : "the", list, api::kNodeLevel));
}

// Empty name: no level.
Result<std::optional<int>> level_of(const char* field, const std::string& name, const placement::Profile& profile) {
  if (name.empty()) return std::optional<int>();
  const int levels = static_cast<int>(profile.levels.size());
  if (name == api::kNodeLevel) return std::optional<int>(levels);
  for (int level = 0; level < levels; ++level) {
    if (profile.levels[static_cast<size_t>(level)].name == name) return std::optional<int>(level);
  }
  return unknown_level(field, name, profile);
}

// CPU, or an extended resource: its name has a domain.
bool has_processors(const api::Json& resources) {
  for (const char* part : {"requests", "limits"}) {
    const api::Json& amounts = api::at(resources, part);
    if (!amounts.is_object()) continue;
    for (const auto& [name, amount] : amounts.items()) {
      if (name != placement::kCpu && name.find('/') == std::string::npos) continue;
      const auto quantity = api::Quantity::parse(amount.is_string() ? amount.get<std::string>() : amount.dump());
      if (!quantity || !quantity->is_zero()) return true;
    }
  }
  return false;
}

bool asks_for_processors(const api::TrainingJobSpec& spec) {
  if (spec.gpus_per_node > 0 || has_processors(spec.resources)) return true;
  const api::Json& pod = api::at(spec.pod_template, "spec");
  if (has_processors(api::at(pod, "resources"))) return true;
  for (const char* list : {"containers", "initContainers"}) {
    for (const api::Json& container : api::at(pod, list)) {
      if (has_processors(api::at(container, "resources"))) return true;
    }
  }
  return false;
}

}  // namespace

Result<placement::Constraint> constraint_of(const api::TrainingJobSpec& spec, const placement::Profile& profile) {
  const api::PlacementSpec& wish = spec.placement;
  placement::Constraint constraint{.exclusive = wish.exclusive};
  LOCKSTEP_TRY(constraint.required, level_of("required", wish.required, profile));
  LOCKSTEP_TRY(constraint.preferred, level_of("preferred", wish.preferred, profile));
  if (constraint.preferred) {
    if (constraint.required && *constraint.required > *constraint.preferred) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("spec.placement.required: level {} is inside of the preferred level {}; require an outer "
                              "level, or prefer an inner one",
                              wish.required, wish.preferred));
    }
    constraint.preferred_left =
        std::chrono::seconds(wish.preferred_wait_seconds.value_or(api::kDefaultPreferredWaitSeconds));
  } else {
    const int innermost = static_cast<int>(profile.levels.size()) - 1;
    const int level = std::max(innermost, constraint.required.value_or(innermost));
    if (level >= 0) constraint.preferred = level;
    constraint.spread = !asks_for_processors(spec);
  }
  return constraint;
}

}  // namespace lockstep::job
