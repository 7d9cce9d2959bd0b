// The status that a kubelet writes for a pod, as merge patches. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "operator/base/clock.h"
#include "operator/local/pod_process.h"
#include "operator/local/process.h"

namespace lockstep::local {

struct ContainerTimes {
  WallTime started{}, finished{};
};

// Running and ready, with the init containers done.
nlohmann::json running_status(const nlohmann::json& pod, const Machine& machine, WallTime started);
// Succeeded or Failed by the exit code; `message` is the tail of the log (FallbackToLogsOnError).
nlohmann::json ended_status(const nlohmann::json& pod, ContainerTimes times, const ProcessEnd& end,
                            const std::string& message);
// Failed before any process ran; `why` is a sentence.
nlohmann::json unstartable_status(const nlohmann::json& pod, WallTime now, const std::string& why);

}  // namespace lockstep::local
