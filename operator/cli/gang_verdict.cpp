#include "operator/cli/gang_verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/job/children.h"
#include "operator/job/placement_constraint.h"

namespace lockstep::cli {
namespace {

// All pods of a job need the same. Image and address of the agent change nothing about it.
Result<placement::Shape> shape_of_gang(const api::TrainingJob& job) {
  LOCKSTEP_TRY(const auto pod, job::build_pod(job, {.slot = 0, .incarnation = 1},
                                              {.image = "agent", .coordinator_address = "0.0.0.0:1"}));
  return placement::shape_of(pod);
}

void note_wishes(const api::TrainingJob& job, const placement::Constraint& constraint, GangVerdict& found) {
  const api::TrainingJobSpec& spec = job.spec;
  const placement::Verdict& verdict = found.verdict;
  if (spec.scheduling.backend == api::SchedulingBackend::kNone) {
    found.notes.emplace_back(
        "scheduling.backend is None: kube-scheduler places the pods one by one, wherever it likes");
  }
  const bool waits = constraint.preferred_left > Duration{} && verdict.assignment && constraint.preferred &&
                     verdict.assignment->level_spanned < *constraint.preferred;
  if (waits) {
    found.notes.push_back(fmt::format(
        "one {} is preferred and has no room: the operator waits for it for up to {} s", spec.placement.preferred,
        std::chrono::duration_cast<std::chrono::seconds>(constraint.preferred_left).count()));
  }
  if (spec.spares > 0) found.notes.push_back(fmt::format("its {} spares get nodes after the gang", spec.spares));
}

}  // namespace

Result<GangVerdict> judge_gang(kube::Api& api, const api::TrainingJob& job, const ProfileChoice& choice) {
  LOCKSTEP_TRY(const placement::Shape shape, shape_of_gang(job));
  const auto self = job.meta.uid.empty() ? placement::Uid() : placement::Uid::of(job.meta.uid);
  GangVerdict found;
  LOCKSTEP_TRY(found.reading, read_cluster(api, choice, {shape}, self));
  placement::Cluster& cluster = *found.reading.cluster;
  const auto constraint = job::constraint_of(job.spec, cluster.tree().profile());
  if (!constraint) {
    return fail(ErrorCode::kInvalid,
                constraint.error().message + "; --topology-level and --preset tell this command the levels");
  }
  placement::Search search{.shape = found.reading.shapes.front(),
                           .required = constraint->required,
                           .preferred = constraint->preferred,
                           .exclusive = constraint->exclusive,
                           .spread = constraint->spread};
  int bound = 0;
  for (const auto& [name, pods] : found.reading.own) {
    bound += pods;
    if (const auto node = cluster.tree().find(name); node != placement::kNone)
      search.survivors.emplace_back(node, pods);
  }
  found.missing = std::max(0, job.spec.nodes - bound);
  if (found.missing == 0) return found;
  search.pods = found.missing;
  found.verdict = explain_refusal(cluster, search, self, found.reading.jobs);
  const int fewest = std::max(0, api::fewest_nodes(job.spec) - bound);
  if (found.verdict.outcome != placement::Verdict::Outcome::kFits && fewest < found.missing &&
      found.verdict.fit_now >= std::max(1, fewest)) {
    search.pods = found.verdict.fit_now;
    found.verdict = explain_refusal(cluster, search, self, found.reading.jobs);
    found.notes.push_back(
        fmt::format("elastic.minNodes lets it train with {} of {} pods; the others follow when they fit",
                    bound + search.pods, job.spec.nodes));
  }
  note_wishes(job, *constraint, found);
  return found;
}

}  // namespace lockstep::cli
