// The cluster of a PlacementWorld: an API server, kube-scheduler, kubelets and a coordinator.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "operator/job/children.h"
#include "tests/operator/job/placement_world_job.h"

namespace lockstep::job {

using rendezvous::Phase;
using std::chrono::seconds;

void PlacementWorld::touch(Job& job, api::Pod& pod) {
  const bool bound = !pod.node_name.empty();
  const std::uint16_t flags = bound ? placement::kBound : pod.gates.empty() ? 0 : placement::kGated;
  pod.meta.resource_version =
      cluster_.write(job.key(pod.meta.name), bound ? pod.node_name : pod.reserved_node, job.gpus, flags, pod.meta.uid);
}

void PlacementWorld::erase(Job& job, const std::string& name) {
  cluster_.erase(job.key(name));
  job.pods.erase(std::string(name));
}

void PlacementWorld::create(Job& job, const PodToCreate& wanted) {
  const std::string name = pod_name(job.job, wanted.slot, wanted.incarnation);
  if (job.pods.contains(name)) return;  // ours
  const bool opens = !wanted.node.empty() && !wanted.gated;
  const placement::Opening opening{.slot = wanted.slot, .pod = job.key(name), .uid = {}, .node = wanted.node};
  if (opens && !may_open(job, opening)) return;
  for (const auto& [other, pod] : job.pods) {
    EXPECT_FALSE(is_live(pod) && identity_of(pod.meta)->slot == wanted.slot) << name << " beside " << other;
  }
  api::Pod& pod = job.pods[name];
  pod.meta.name = name;
  pod.meta.name_space = job.job.meta.name_space;
  pod.meta.uid = fmt::format("uid{}", next_uid_++);
  pod.meta.created = now_;
  pod.meta.labels = {{api::kLabelSlot, std::to_string(wanted.slot)},
                     {api::kLabelIncarnation, std::to_string(wanted.incarnation)}};
  pod.phase = "Pending";
  pod.reserved_node = wanted.node;
  if (wanted.gated) pod.gates = {api::kPlacementGate};
  touch(job, pod);
  job.opened.erase(name);
  if (!opens) return;
  ++counts.ungated;
  job.opened.insert(name);
  cluster_.opened(opening.pod, answer(pod.meta.resource_version), pod.meta.uid);
  check_room(wanted.node);
}

void PlacementWorld::remove(Job& job, const PodToDelete& removal) {
  const auto found = job.pods.find(removal.name);
  if (found == job.pods.end() || found->second.meta.uid != removal.uid) return;
  api::Pod& pod = found->second;
  if (!removal.resource_version.empty()) {
    if (removal.resource_version != pod.meta.resource_version) {
      ++counts.conflicts;
      return;
    }
    EXPECT_TRUE(pod.node_name.empty() || pod.refused()) << removal.name << " runs";
    ++counts.replaced;
  }
  // Without a node it is gone at once, unless something holds it.
  if ((pod.node_name.empty() && !chance(10)) || (pod.terminal() && chance(50))) return erase(job, removal.name);
  if (pod.meta.deleted) return;
  pod.meta.deleted = now_;
  const bool terminal = pod.terminal();
  touch(job, pod);
  if (terminal) cluster_.erase(job.key(removal.name));
}

void PlacementWorld::move(Job& job, const PodToMove& move) {
  const auto found = job.pods.find(move.name);
  if (found == job.pods.end()) return;
  api::Pod& pod = found->second;
  if (pod.meta.uid != move.uid || pod.gates.empty() || pod.reserved_node != move.from) return;
  pod.reserved_node = move.to;
  touch(job, pod);
  ++counts.moved;
}

void PlacementWorld::open(Job& job, const PodToOpen& opening) {
  const placement::Opening asked{
      .slot = opening.slot, .pod = job.key(opening.name), .uid = opening.uid, .node = opening.node};
  if (!may_open(job, asked)) return;
  const auto found = job.pods.find(opening.name);
  const bool holds = found != job.pods.end() && found->second.meta.uid == opening.uid && !found->second.gates.empty() &&
                     found->second.reserved_node == opening.node;
  if (!holds) return cluster_.opened(asked.pod, "");
  api::Pod& pod = found->second;
  pod.gates.clear();
  touch(job, pod);
  job.opened.insert(opening.name);
  cluster_.opened(asked.pod, answer(pod.meta.resource_version), pod.meta.uid);
  ++counts.opened;
  check_room(opening.node);
}

int PlacementWorld::taken(const std::string& node) const {
  int sum = 0;
  for (const auto& job : jobs_) {
    for (const auto& [name, pod] : job->pods) sum += pod.node_name == node && !pod.terminal() ? job->gpus : 0;
  }
  for (const auto& [pod, on] : intruders_) sum += on == node ? kNodeGpus / 2 : 0;
  return sum;
}

// ---- kube-scheduler, kubelets, coordinator ----

void PlacementWorld::schedule(Job& job) {
  for (auto& [name, pod] : job.pods) {
    if (!is_live(pod) || !pod.node_name.empty() || !pod.gates.empty() || (!calm_ && chance(20))) continue;
    std::string node;
    for (const auto& candidate : nodes_) {
      const bool may = pod.reserved_node.empty() || pod.reserved_node == candidate;
      if (may && !cordoned_.contains(candidate) && taken(candidate) + job.gpus <= kNodeGpus) node = candidate;
    }
    pod.unschedulable_reason = node.empty() ? "Unschedulable" : "";
    if (!node.empty()) {
      pod.node_name = node;
      pod.scheduled = true;
      pod.scheduled_at = now_;
    }
    touch(job, pod);
  }
}

void PlacementWorld::run_kubelets(Job& job) {
  std::vector<std::string> gone;
  for (auto& [name, pod] : job.pods) {
    if (pod.meta.deleted) {
      if (calm_ || chance(40)) gone.push_back(name);
      continue;
    }
    if (pod.node_name.empty() || pod.phase != "Pending" || (!calm_ && chance(30))) continue;
    if (!calm_ && job.by_operator && chance(8)) {
      ++counts.refused;
      pod.phase = "Failed";
      pod.reason = "OutOfcpu";
      touch(job, pod);
      cluster_.erase(job.key(name));
    } else {
      pod.phase = "Running";
      pod.ready = true;
      touch(job, pod);
    }
  }
  for (const auto& name : gone) erase(job, name);
}

void PlacementWorld::coordinate(Job& job) {
  if (!job.plan) return;
  auto& view = job.view;
  const auto by_uid = [&](const std::string& uid) -> const api::Pod* {
    for (const auto& [name, pod] : job.pods) {
      if (pod.meta.uid == uid) return &pod;
    }
    return nullptr;
  };
  const auto is_there = [&](const std::string& uid) {
    const api::Pod* pod = by_uid(uid);
    return pod != nullptr && works(*pod);
  };
  std::map<int, std::string> present;
  for (const auto& member : job.plan->members) {
    if (!member.leaving && is_there(member.pod_uid)) present[member.slot] = member.pod_uid;
  }
  while (present.size() > static_cast<size_t>(job.plan->slots)) present.erase(std::prev(present.end()));
  const auto fewest = static_cast<size_t>(api::fewest_nodes(job.job.spec));
  if (job.plan->stop) {
    view.phase = Phase::kStopped;
    job.members.clear();
  } else if (view.phase == Phase::kUp) {
    const auto leaves = [&](const std::string& uid) {
      return std::any_of(job.plan->members.begin(), job.plan->members.end(),
                         [&](const auto& member) { return member.pod_uid == uid && member.leaving; });
    };
    for (const auto& [slot, uid] : job.members) {
      if (is_there(uid)) continue;
      if (leaves(uid)) {  // after a step on which all agree
        view.phase = Phase::kWaiting;
        continue;
      }
      view.phase = Phase::kBroken;
      view.failure = rendezvous::Failure{.generation = view.generation, .cause = api::Cause::kMemberLost, .slot = slot};
      view.failure->message = "it fell silent";
      view.failure->time = now_;
      break;
    }
    job.trained += seconds(1);
    if (view.phase == Phase::kUp && job.trained >= job.trains_for) view.phase = Phase::kFinished;
    if (view.phase == Phase::kUp && present.size() > job.members.size()) view.phase = Phase::kWaiting;
  } else if (view.phase == Phase::kStopped ||
             (view.phase == Phase::kBroken && job.plan->handled_generation >= view.generation)) {
    view.phase = Phase::kWaiting;
  }
  if (view.phase == Phase::kWaiting) {
    view.failure.reset();
    job.members.clear();
    if (present.size() >= fewest) {
      view.generation = std::max(view.generation, job.plan->handled_generation) + 1;
      view.phase = Phase::kUp;
      job.members = present;
    }
  }
  view.progress.step = view.generation * 10;
  show_members(job);
}

void PlacementWorld::show_members(Job& job) {
  if (!job.plan) return;
  job.view.members.clear();
  for (const auto& member : job.plan->members) {
    const auto named = std::find_if(job.pods.begin(), job.pods.end(),
                                    [&](const auto& pod) { return pod.second.meta.uid == member.pod_uid; });
    const bool connected = named != job.pods.end() && works(named->second);
    const auto in_gang = job.members.find(member.slot);
    const bool takes_part = in_gang != job.members.end() && in_gang->second == member.pod_uid;
    job.view.members.push_back(
        {member.slot, member.incarnation, connected, takes_part, takes_part, member.leaving, connected});
  }
}

}  // namespace lockstep::job
