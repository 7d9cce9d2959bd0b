#include "operator/job/scale_policy.h"

#include <algorithm>

#include <fmt/format.h>

#include "operator/job/job_status.h"

namespace lockstep::job {
namespace {

using api::Release;
using rendezvous::Phase;

// Without the slots from `first` on, a generation that runs would be left with fewer members than may train.
bool too_few_would_stay(const Snapshot& snapshot, int first) {
  const auto& view = snapshot.view;
  if (!view) return true;  // nobody knows what runs
  if (view->phase != Phase::kUp && view->phase != Phase::kStarting && view->phase != Phase::kProposing) return false;
  const auto& spec = snapshot.job->spec;
  const auto staying = std::count_if(view->members.begin(), view->members.end(), [&](const auto& member) {
    return member.slot < first && member.connected && !member.leaving;
  });
  return staying < api::fewest_nodes(spec);
}

// The processes of a foreign program cannot be asked to leave their generation. So a gang with more members than it is
// to have gives up pods, even where there is room for spares.
void give_up_members(const Snapshot& snapshot, Survey& survey) {
  const auto& spec = snapshot.job->spec;
  if (spec.rendezvous.kind == api::RendezvousKind::kLockstep || !snapshot.view || !survey.released.empty()) return;
  if (snapshot.view->world_size <= spec.nodes * api::resolved_procs_per_node(spec)) return;
  for (auto& slot : survey.slots) {
    if (slot.slot < spec.nodes || slot.pod == nullptr) continue;
    survey.surplus.push_back(slot.pod);
    slot = SlotView{.slot = slot.slot, .outside = true};
  }
}

// Entries of which a pod is left.
void forget_those_that_left(const Snapshot& snapshot, std::vector<Release>& released) {
  std::erase_if(released, [&](const Release& release) {
    return std::none_of(snapshot.pods.begin(), snapshot.pods.end(), [&](const auto& pod) {
      const auto identity = identity_of(pod->meta);
      return identity && is_released({release}, *identity);
    });
  });
}

}  // namespace

bool is_released(const std::vector<Release>& released, const PodIdentity& pod) {
  return std::any_of(released.begin(), released.end(), [&](const Release& release) {
    return pod.slot >= release.from_slot && pod.incarnation <= release.incarnation;
  });
}

void apply_scale(const Snapshot& snapshot, Survey& survey, api::TrainingJobStatus& status, Plan& plan) {
  const auto& job = *snapshot.job;
  forget_those_that_left(snapshot, status.released);
  int first = api::slots_with_pods(job.spec);
  give_up_members(snapshot, survey);
  for (const api::Pod* pod : survey.surplus) first = std::min(first, identity_of(pod->meta)->slot);
  const bool held = !survey.surplus.empty() && too_few_would_stay(snapshot, first);

  const int before = job.status.nodes.desired, wanted = job.spec.nodes;
  if (before > 0 && wanted > before) {
    const auto sentence = fmt::format("nodes was raised from {} to {}", before, wanted);
    set_condition(snapshot, status, "Placed", false, "ScalingUp", sentence);
    plan.events.push_back({false, "ScaledUp", "Scale", sentence});
  } else if (wanted < before) {
    auto sentence = fmt::format("nodes was lowered from {} to {}", before, wanted);
    if (held) sentence += fmt::format("; what is above stays until {} others are there", api::fewest_nodes(job.spec));
    plan.events.push_back({false, "ScaledDown", "Scale", std::move(sentence)});
  }
  if (held || survey.surplus.empty()) return;

  const Release release{first, known_incarnation(snapshot)};
  std::erase_if(status.released, [&](const Release& older) { return older.from_slot >= release.from_slot; });
  status.released.push_back(release);
  status.incarnation = next_incarnation(snapshot);
  survey.released.insert(survey.released.end(), survey.surplus.begin(), survey.surplus.end());
  survey.surplus.clear();
}

}  // namespace lockstep::job
