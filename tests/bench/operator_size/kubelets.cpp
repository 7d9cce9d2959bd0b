#include "tests/bench/operator_size/kubelets.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "operator/api/object.h"
#include "operator/base/timestamp.h"
#include "operator/kube/json_text.h"
#include "operator/rendezvous/coordinator.h"

namespace lockstep::bench {
namespace {

using kube::Json;
using kube::text_at;

std::string label(const Json& pod, const char* name) {
  return text_at(pod, {"metadata", "labels", name});
}

// Of the required node affinity by name, which placement gives to a pod.
std::string wanted_node(const Json& pod) {
  const Json* terms = kube::value_at(
      pod, {"spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"});
  if (terms == nullptr || !terms->is_array()) return "";
  for (const Json& term : *terms) {
    for (const Json& field : term.value("matchFields", Json::array())) {
      if (text_at(field, {"key"}) == "metadata.name" && !field["values"].empty()) return field["values"][0];
    }
  }
  return "";
}

std::string environment_of(const Json& pod, const char* name) {
  for (const char* kind : {"containers", "initContainers"}) {
    for (const Json& container : pod["spec"].value(kind, Json::array())) {
      for (const Json& variable : container.value("env", Json::array())) {
        if (text_at(variable, {"name"}) == name) return text_at(variable, {"value"});
      }
    }
  }
  return "";
}

Json statuses(const Json& containers, bool ended, const std::string& time) {
  Json result = Json::array();
  for (const Json& container : containers) {
    const Json running{{"running", {{"startedAt", time}}}};
    const Json completed{
        {"terminated", {{"exitCode", 0}, {"reason", "Completed"}, {"startedAt", time}, {"finishedAt", time}}}};
    result.push_back({{"name", container["name"]},
                      {"image", container.value("image", "")},
                      {"imageID", fmt::format("registry.example.com/image@sha256:{:064x}", 7)},
                      {"containerID", fmt::format("containerd://{:064x}", 9)},
                      {"ready", true},
                      {"restartCount", 0},
                      {"state", ended ? completed : running}});
  }
  return result;
}

// Since now: the operator counts startupSeconds from the times in it.
Json running_status(const Json& pod) {
  const std::string time = format_timestamp(std::chrono::system_clock::now());
  Json conditions = Json::array();
  for (const char* type : {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}) {
    conditions.push_back({{"type", type}, {"status", "True"}, {"lastTransitionTime", time}});
  }
  const Json& spec = pod["spec"];
  return {{"status",
           {{"phase", "Running"},
            {"podIP", "127.0.0.1"},
            {"hostIP", "10.0.0.1"},
            {"startTime", time},
            {"conditions", conditions},
            {"initContainerStatuses", statuses(spec.value("initContainers", Json::array()), true, time)},
            {"containerStatuses", statuses(spec.value("containers", Json::array()), false, time)}}}};
}

std::chrono::duration<double> of(double seconds) {
  return std::chrono::duration<double>(seconds);
}

}  // namespace

Kubelets::Kubelets(local::MemoryApi& objects)
    : objects_(objects), thread_([this](std::stop_token stop) { run(std::move(stop)); }) {}

Kubelets::~Kubelets() {
  thread_.request_stop();
}

void Kubelets::run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    kube::WatchOptions all;
    all.resource_version = "0";
    all.timeout_seconds = 3600;
    // Ends with 410 when it falls behind, and then begins with all pods again.
    const auto on_event = [this](const kube::WatchEvent& event) {
      const bool there = event.type == kube::WatchEventType::kAdded || event.type == kube::WatchEventType::kModified;
      if (there) see(event.object);
      return true;
    };
    static_cast<void>(objects_.watch(kube::kPods, all, on_event, stop));
  }
}

void Kubelets::see(const Json& pod) {
  const std::string name_space = text_at(pod, {"metadata", "namespace"}), name = text_at(pod, {"metadata", "name"});
  if (kube::value_at(pod, {"metadata", "deletionTimestamp"}) != nullptr) {
    static_cast<void>(objects_.remove(kube::kPods, name_space, name, {.grace_period_seconds = 0}));
    return;
  }
  const std::string node = wanted_node(pod);
  if (node.empty() || !pod["spec"].value("schedulingGates", Json::array()).empty()) return;
  if (!text_at(pod, {"spec", "nodeName"}).empty()) return;
  const auto patch = [&](const Json& change, const char* subresource) {
    return bool(objects_.patch(kube::kPods, name_space, name, kube::PatchType::kMerge, change, subresource));
  };
  if (!patch({{"spec", {{"nodeName", node}}}}, "") || !patch(running_status(pod), "status")) return;
  const std::lock_guard guard(mutex_);
  pods_[std::atoi(label(pod, api::kLabelSlot).c_str())] = {
      name, text_at(pod, {"metadata", "uid"}), environment_of(pod, rendezvous::kEnvCoordinator),
      environment_of(pod, rendezvous::kEnvCoordinatorCa), std::atoll(label(pod, api::kLabelIncarnation).c_str())};
  changed_.notify_all();
}

bool Kubelets::wait_for_all(int slots, double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, of(seconds), [&] { return static_cast<int>(pods_.size()) >= slots; });
}

std::optional<Kubelets::RunningPod> Kubelets::wait_for_another(int slot, const std::string& than_uid, double seconds) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, of(seconds), [&] { return pods_[slot].uid != than_uid; })) return std::nullopt;
  return pods_[slot];
}

Kubelets::RunningPod Kubelets::pod(int slot) const {
  const std::lock_guard guard(mutex_);
  return pods_.at(slot);
}

}  // namespace lockstep::bench
