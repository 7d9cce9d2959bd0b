// A job whose pods the operator places, for tests of decide(): a Situation with an answer of the placer.
#pragma once

#include <string>

#include <fmt/format.h>

#include "operator/job/placement_policy.h"
#include "tests/operator/job/situation.h"

namespace lockstep::job {

// The answer is what the test says; empty: nothing is decided.
struct Placed : Situation {
  explicit Placed(int slots = 2) : Situation(slots) { placing.emplace(); }

  placement::Answer& answer() {
    if (!placing->answer) placing->answer.emplace();
    return *placing->answer;
  }
  // Nodes for all slots, "node-0" and so on.
  placement::Answer& place_all() {
    answer() = {};
    for (int slot = 0; slot < api::slots_with_pods(job.spec); ++slot)
      answer().nodes[slot] = fmt::format("node-{}", slot);
    return answer();
  }
  placement::Answer& wait(placement::Why why, int missing = 1) {
    answer() = {};
    answer().wait = {.why = why, .pods = missing, .level = {}, .hole = 0, .held = {}, .behind = {}};
    return answer();
  }

  api::Pod& unbound(int slot, std::int64_t incarnation = 1) {
    api::Pod& made = pod(slot, incarnation, "Pending");
    made.meta.resource_version = fmt::format("1{}", slot);
    made.node_name.clear();
    made.scheduled = false;
    made.scheduled_at.reset();
    return made;
  }
  api::Pod& gated(int slot, std::int64_t incarnation = 1) {
    api::Pod& made = pinned(slot, incarnation);
    made.gates = {api::kPlacementGate};
    made.unschedulable_reason = "SchedulingGated";
    return made;
  }
  api::Pod& pinned(int slot, std::int64_t incarnation = 1) {
    api::Pod& made = unbound(slot, incarnation);
    made.reserved_node = fmt::format("node-{}", slot);
    return made;
  }
  // As the kubelet of its node does.
  void refuse(api::Pod& refused) {
    refused.phase = "Failed";
    refused.reason = "OutOfcpu";
    refused.message = "Node didn't have enough resource: cpu";
    refused.ready = false;
    refused.meta.resource_version = "99";
  }
  void remove(const std::string& name) {
    std::erase_if(pods, [&](const api::Pod& pod) { return pod.meta.name == name; });
  }
  // A job that trains on its nodes.
  Placed& training() {
    place_all();
    running();
    place_all();
    return *this;
  }
  placement::Seat seat(int slot) const { return gang_of(snapshot()).seats.at(static_cast<size_t>(slot)); }
};

}  // namespace lockstep::job
