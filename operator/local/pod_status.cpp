#include "operator/local/pod_status.h"

#include "operator/base/timestamp.h"

namespace lockstep::local {
namespace {

using Json = nlohmann::json;

Json condition(const char* type, bool is_true, const std::string& time, const char* reason = "") {
  Json result = {{"type", type}, {"status", is_true ? "True" : "False"}, {"lastTransitionTime", time}};
  if (*reason != '\0') result["reason"] = reason;
  return result;
}

Json conditions(bool ready, const std::string& time, const char* reason = "") {
  return {condition("PodScheduled", true, time), condition("Initialized", true, time),
          condition("ContainersReady", ready, time, reason), condition("Ready", ready, time, reason)};
}

// The state of each container of `kind`, all the same: with one machine there is one process.
Json container_statuses(const Json& pod, const char* kind, const Json& state, bool ready) {
  Json result = Json::array();
  for (const Json& container : pod.value("spec", Json::object()).value(kind, Json::array())) {
    result.push_back({{"name", container.value("name", "")},
                      {"image", container.value("image", "")},
                      {"imageID", ""},
                      {"ready", ready},
                      {"restartCount", 0},
                      {"state", state}});
  }
  return result;
}

Json terminated(int exit_code, const char* reason, const std::string& message, const std::string& started,
                const std::string& finished) {
  Json result = {{"exitCode", exit_code}, {"reason", reason}, {"startedAt", started}, {"finishedAt", finished}};
  if (!message.empty()) result["message"] = message;
  return {{"terminated", result}};
}

}  // namespace

Json running_status(const Json& pod, const Machine& machine, WallTime started) {
  const std::string time = format_timestamp(started);
  return {{"phase", "Running"},
          {"startTime", time},
          {"hostIP", machine.address},
          {"podIP", machine.address},
          {"podIPs", {{{"ip", machine.address}}}},
          {"conditions", conditions(true, time)},
          {"initContainerStatuses",
           container_statuses(pod, "initContainers", terminated(0, "Completed", "", time, time), true)},
          {"containerStatuses", container_statuses(pod, "containers", {{"running", {{"startedAt", time}}}}, true)}};
}

Json ended_status(const Json& pod, ContainerTimes times, const ProcessEnd& end, const std::string& message) {
  const std::string finished = format_timestamp(times.finished);
  const bool fine = end.exit_code == 0;
  const Json state = terminated(end.exit_code, fine ? "Completed" : "Error", fine ? "" : message,
                                format_timestamp(times.started), finished);
  return {{"phase", fine ? "Succeeded" : "Failed"},
          {"conditions", conditions(false, finished, fine ? "PodCompleted" : "PodFailed")},
          {"containerStatuses", container_statuses(pod, "containers", state, false)}};
}

Json unstartable_status(const Json& pod, WallTime now, const std::string& why) {
  const std::string time = format_timestamp(now);
  return {{"phase", "Failed"},
          {"reason", "StartError"},
          {"message", why},
          {"startTime", time},
          {"conditions", conditions(false, time, "PodFailed")},
          {"containerStatuses",
           container_statuses(pod, "containers", terminated(128, "StartError", why, time, time), false)}};
}

}  // namespace lockstep::local
