#include "operator/job/slot_troubles.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "operator/api/cause.h"
#include "operator/base/number.h"
#include "operator/job/job_status.h"
#include "operator/job/pod_policy.h"
#include "operator/job/time_left.h"

namespace lockstep::job {
namespace {

using api::SlotTrouble;

constexpr size_t kMostTroubles = 64;  // as in the CRD
constexpr auto kAvoidNode = std::chrono::minutes(10);

SlotTrouble trouble_of(const api::Attempt& attempt) {
  if (attempt.cause == api::Cause::kPartitioned) return SlotTrouble::kPartitioned;
  if (attempt.cause == api::Cause::kNodeLost) return SlotTrouble::kNodeLost;
  const bool silent = attempt.cause == api::Cause::kMemberLost && attempt.strategy == api::Strategy::kShrink;
  return silent ? SlotTrouble::kSilent : SlotTrouble::kNone;
}

const api::Pod* find_pod(const Snapshot& snapshot, const std::string& name) {
  const auto at =
      std::find_if(snapshot.pods.begin(), snapshot.pods.end(), [&](const auto& pod) { return pod->meta.name == name; });
  return at == snapshot.pods.end() ? nullptr : at->get();
}

// Of a pod that is gone only the name is known, which ends in "-<slot>-<incarnation>" (children.h).
PodIdentity identity_in(std::string_view pod) {
  const auto last = pod.rfind('-');
  const auto before = last == pod.npos || last == 0 ? pod.npos : pod.rfind('-', last - 1);
  if (before == pod.npos) return {};
  return {.slot = as_number<int>(pod.substr(before + 1, last - before - 1)).value_or(0),
          .incarnation = as_number<std::int64_t>(pod.substr(last + 1)).value_or(0)};
}

// The sign by which the node counts as lost; "": it has none.
std::string sign_of(const Snapshot& snapshot, const std::string& node) {
  const auto sign = snapshot.dead_nodes.find(node);
  return sign == snapshot.dead_nodes.end() ? "" : sign->second;
}

// The node had a sign for which the pod left it, or was lost with it.
bool by_sign(const api::SlotStatus& entry) {
  return entry.trouble == SlotTrouble::kUnhealthy || (entry.trouble == SlotTrouble::kNodeLost && !entry.sign.empty());
}

// How long the entry's node is still avoided; zero: it is not.
Duration avoided_for(const api::SlotStatus& entry, WallTime now) {
  const bool shuns = entry.trouble == SlotTrouble::kPartitioned || by_sign(entry);
  if (!shuns || entry.node.empty() || !entry.since) return Duration::zero();
  return std::max<Duration>(time_left(now, *entry.since, kAvoidNode), Duration::zero());
}

bool avoided(const api::SlotStatus& entry, WallTime now) {
  return avoided_for(entry, now) > Duration::zero();
}

// The others have taken it in again.
bool is_back(const Snapshot& snapshot, const api::SlotStatus& entry, const api::Pod& pod) {
  const auto& view = snapshot.view;
  if (!view || view->phase != rendezvous::Phase::kUp || view->generation <= entry.generation) return false;
  const auto identity = identity_of(pod.meta);
  const auto* member = identity ? view->member_of(identity->slot) : nullptr;
  return member != nullptr && member->incarnation == identity->incarnation && member->in_gang && member->connected &&
         member->up;
}

// The slot is one of the job's, and has no pod. Where all had been there, that is a loss, which is still to be told.
bool waits_for_a_pod(const Snapshot& snapshot, int slot) {
  if (slot >= api::slots_with_pods(snapshot.job->spec)) return false;
  return std::none_of(snapshot.pods.begin(), snapshot.pods.end(), [&](const auto& pod) {
    const auto identity = identity_of(pod->meta);
    return identity && identity->slot == slot;
  });
}

}  // namespace

const std::vector<api::SlotStatus>& troubles_of(const api::TrainingJobStatus& status) {
  static const std::vector<api::SlotStatus> none;
  return status.slots ? *status.slots : none;
}

const api::SlotStatus* find_trouble(const api::TrainingJobStatus& status, SlotTrouble trouble, const std::string& pod) {
  const auto& slots = troubles_of(status);
  const auto at = std::find_if(slots.begin(), slots.end(),
                               [&](const auto& entry) { return entry.trouble == trouble && entry.pod == pod; });
  return at == slots.end() ? nullptr : &*at;
}

void add_trouble(api::SlotStatus entry, api::TrainingJobStatus& status) {
  if (!status.slots) status.slots.emplace();
  auto& slots = *status.slots;
  std::erase_if(slots, [&](const auto& known) { return known.pod == entry.pod; });
  if (slots.size() >= kMostTroubles) slots.erase(slots.begin());
  slots.push_back(std::move(entry));
}

void note_trouble(const Snapshot& snapshot, const api::Attempt& attempt, api::TrainingJobStatus& status) {
  if (!status.slots) status.slots.emplace();
  if (attempt.pod.empty()) return;
  const SlotTrouble trouble = trouble_of(attempt);
  if (trouble == SlotTrouble::kNone) return;
  const api::Pod* pod = find_pod(snapshot, attempt.pod);
  const auto identity = pod != nullptr ? identity_of(pod->meta) : std::nullopt;
  add_trouble({.slot = identity ? identity->slot : identity_in(attempt.pod).slot,
               .trouble = trouble,
               .pod = attempt.pod,
               .node = attempt.node,
               .since = attempt.end_time,
               .generation = attempt.generation,
               .sign = trouble == SlotTrouble::kNodeLost ? sign_of(snapshot, attempt.node) : ""},
              status);
}

void forget_troubles(const Snapshot& snapshot, api::TrainingJobStatus& status) {
  if (!status.slots) return;
  for (api::SlotStatus& entry : *status.slots) {
    if (entry.since && *entry.since > snapshot.now) entry.since = whole_seconds(snapshot.now);
  }
  std::erase_if(*status.slots, [&](const api::SlotStatus& entry) {
    if (avoided(entry, snapshot.now)) return false;
    const api::Pod* pod = find_pod(snapshot, entry.pod);
    if (entry.trouble != SlotTrouble::kSilent) return pod == nullptr;
    if (pod != nullptr) return is_back(snapshot, entry, *pod);
    return !all_were_placed(status) || !waits_for_a_pod(snapshot, entry.slot);
  });
}

Snapshot with_troubles(const Snapshot& snapshot) {
  auto job = std::make_shared<api::TrainingJob>(*snapshot.job);
  job->status.slots.emplace();
  for (const api::Attempt& attempt : job->status.attempts) note_trouble(snapshot, attempt, job->status);
  // An old attempt does not say whether its pod came back before it went.
  std::erase_if(*job->status.slots, [&](const api::SlotStatus& entry) {
    return entry.trouble == SlotTrouble::kSilent && find_pod(snapshot, entry.pod) == nullptr;
  });
  forget_troubles(snapshot, job->status);
  Snapshot result = snapshot;
  result.job = std::move(job);
  return result;
}

std::vector<std::string> nodes_to_avoid(const std::vector<api::SlotStatus>& slots, WallTime now) {
  std::vector<std::string> nodes;
  for (const api::SlotStatus& entry : slots) {
    const bool known = std::find(nodes.begin(), nodes.end(), entry.node) != nodes.end();
    if (avoided(entry, now) && !known) nodes.push_back(entry.node);
  }
  return nodes;
}

std::size_t nodes_left(const std::vector<api::SlotStatus>& slots, WallTime now) {
  std::set<std::string_view> nodes;
  for (const api::SlotStatus& entry : slots) {
    if (entry.trouble == SlotTrouble::kUnhealthy && avoided(entry, now)) nodes.insert(entry.node);
  }
  return nodes.size();
}

bool has_left(const std::vector<api::SlotStatus>& slots, int slot, const std::string& pod, WallTime now) {
  return std::any_of(slots.begin(), slots.end(), [&](const api::SlotStatus& entry) {
    return entry.slot == slot && entry.trouble == SlotTrouble::kUnhealthy && entry.pod != pod && avoided(entry, now);
  });
}

Duration stays_for(const api::TrainingJobStatus& status, const api::Pod& pod, WallTime now,
                   std::initializer_list<SlotTrouble> after) {
  const auto identity = identity_of(pod.meta);
  Duration longest{};
  for (const api::SlotStatus& entry : troubles_of(status)) {
    const bool counts = std::find(after.begin(), after.end(), entry.trouble) != after.end();
    if (!counts || !by_sign(entry) || entry.node != pod.node_name) continue;
    const bool later = identity && identity->incarnation > identity_in(entry.pod).incarnation;
    if (later) longest = std::max(longest, avoided_for(entry, now));
  }
  return longest;
}

}  // namespace lockstep::job
