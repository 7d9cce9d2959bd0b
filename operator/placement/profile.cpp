#include "operator/placement/profile.h"

#include <fmt/format.h>

#include <cstddef>

#include "operator/api/training_job.h"

namespace lockstep::placement {

Status check(const Profile& profile) {
  const auto invalid = [&](const std::string& what) {
    return fail(ErrorCode::kInvalid, fmt::format("topology profile \"{}\": {}", profile.name, what));
  };
  if (profile.name.empty()) return fail(ErrorCode::kInvalid, "topology profile: the name is empty");
  if (profile.levels.size() > kMostLevels) {
    return invalid(fmt::format("has {} levels, at most {} are supported", profile.levels.size(), kMostLevels));
  }
  for (std::size_t i = 0; i < profile.levels.size(); ++i) {
    const Level& level = profile.levels[i];
    if (level.name.empty()) return invalid(fmt::format("levels[{}]: the name is empty", i));
    if (level.name == api::kNodeLevel) {
      return invalid(fmt::format("levels[{}]: the name \"{}\" belongs to the node itself", i, level.name));
    }
    if (level.label.empty()) return invalid(fmt::format("levels[{}]: the label is empty", i));
    for (std::size_t before = 0; before < i; ++before) {
      const Level& other = profile.levels[before];
      if (other.name == level.name) {
        return invalid(fmt::format("levels[{}] repeats the name \"{}\" of levels[{}]", i, level.name, before));
      }
      if (other.label == level.label) {
        return invalid(fmt::format("levels[{}] repeats the label \"{}\" of levels[{}]", i, level.label, before));
      }
    }
  }
  return {};
}

Result<Level> level_of_flag(const std::string& flag) {
  const auto equals = flag.find('=');
  if (equals == std::string::npos) {
    return fail(ErrorCode::kInvalid, "must be name=label, as in rack=topology.example.com/rack");
  }
  return Level{flag.substr(0, equals), flag.substr(equals + 1)};
}

Result<int> level_index(const Profile& profile, const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < profile.levels.size(); ++i) {
    if (profile.levels[i].name == name) return static_cast<int>(i);
    known += (known.empty() ? "" : ", ") + profile.levels[i].name;
  }
  return fail(ErrorCode::kInvalid, fmt::format("topology profile \"{}\" has no level \"{}\"; it has: {}", profile.name,
                                               name, known.empty() ? "none" : known));
}

}  // namespace lockstep::placement
