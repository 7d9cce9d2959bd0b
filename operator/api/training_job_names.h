// The names of the enum values of a TrainingJob, in one place for reading and writing; private to this room.
#pragma once

#include <initializer_list>
#include <utility>

#include "operator/api/reader.h"
#include "operator/api/training_job.h"

namespace lockstep::api {

template <typename Enum>
using Names = std::initializer_list<std::pair<const char*, Enum>>;

inline constexpr Names<RendezvousKind> kRendezvousKinds{
    {"Lockstep", RendezvousKind::kLockstep}, {"Torch", RendezvousKind::kTorch}, {"None", RendezvousKind::kNone}};
inline constexpr Names<RestartStrategy> kRestartStrategies{{"InPlace", RestartStrategy::kInPlace},
                                                           {"Gang", RestartStrategy::kGang}};
inline constexpr Names<RuleAction> kRuleActions{{"Restart", RuleAction::kRestart}, {"Fail", RuleAction::kFail}};
inline constexpr Names<CleanPodPolicy> kCleanPodPolicies{
    {"Running", CleanPodPolicy::kRunning}, {"All", CleanPodPolicy::kAll}, {"None", CleanPodPolicy::kNone}};

inline constexpr Names<SchedulingBackend> kSchedulingBackends{{"Lockstep", SchedulingBackend::kLockstep},
                                                              {"None", SchedulingBackend::kNone}};

template <typename Enum>
const char* name_of(Enum value, Names<Enum> names) {
  for (const auto& [name, candidate] : names) {
    if (candidate == value) return name;
  }
  return "";
}

void read_status(const Reader& root, TrainingJobStatus& status);

}  // namespace lockstep::api
