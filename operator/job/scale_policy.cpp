#include "operator/job/scale_policy.h"

#include <algorithm>

#include <fmt/format.h>

#include "operator/job/job_status.h"

namespace lockstep::job {
namespace {

using api::Release;
using rendezvous::Phase;

// Without the slots from `nodes` on, a generation that runs would be left with fewer members than may train.
bool too_few_would_stay(const Snapshot& snapshot) {
  const auto& view = snapshot.view;
  if (!view) return true;  // nobody knows what runs
  if (view->phase != Phase::kUp && view->phase != Phase::kStarting && view->phase != Phase::kProposing) return false;
  const auto& spec = snapshot.job->spec;
  const auto staying = std::count_if(view->members.begin(), view->members.end(), [&](const auto& member) {
    return member.slot < spec.nodes && member.connected && !member.leaving;
  });
  return staying < spec.elastic->min_nodes;
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
  if (!job.spec.elastic) return;
  forget_those_that_left(snapshot, status.released);
  const bool held = !survey.surplus.empty() && too_few_would_stay(snapshot);

  const int before = job.status.nodes.desired, wanted = job.spec.nodes;
  if (before > 0 && wanted > before) {
    const auto sentence = fmt::format("nodes was raised from {} to {}", before, wanted);
    set_condition(snapshot, status, "Placed", false, "ScalingUp", sentence);
    plan.events.push_back({false, "ScaledUp", "Scale", sentence});
  } else if (wanted < before) {
    auto sentence = fmt::format("nodes was lowered from {} to {}", before, wanted);
    if (held) sentence += fmt::format("; what is above stays until {} others are there", job.spec.elastic->min_nodes);
    plan.events.push_back({false, "ScaledDown", "Scale", std::move(sentence)});
  }
  if (held || survey.surplus.empty()) return;

  const Release release{wanted, known_incarnation(snapshot)};
  std::erase_if(status.released, [&](const Release& older) { return older.from_slot >= release.from_slot; });
  status.released.push_back(release);
  status.incarnation = release.incarnation + 1;
  survey.released.insert(survey.released.end(), survey.surplus.begin(), survey.surplus.end());
  survey.surplus.clear();
}

}  // namespace lockstep::job
