#include "operator/job/quota_policy.h"

#include <algorithm>
#include <vector>

namespace lockstep::job {

bool release_for_quota(const Snapshot& snapshot, const Survey& gang, api::TrainingJobStatus& status,
                       std::optional<Blocker>& blocker, Plan& plan) {
  if (!blocker || blocker->reason != kQuotaExceeded || !snapshot.view) return false;
  const auto& members = snapshot.view->members;
  const bool held =
      std::any_of(members.begin(), members.end(), [](const auto& member) { return member.alive || member.in_gang; });
  std::vector<const api::Pod*> there;
  bool newest = false;  // a deleted pod of the newest round would be a loss
  for (const auto& slot : gang.slots) {
    if (!slot.usable()) continue;
    there.push_back(slot.pod);
    newest = newest || slot.incarnation == status.incarnation;
  }
  if (held || static_cast<int>(there.size()) >= api::fewest_nodes(snapshot.job->spec)) return false;
  // The same sentence whether pods are there now or not, so that the status stays quiet.
  blocker->message += "; pods that could be created are released until all of them fit";
  if (there.empty()) return false;
  if (newest) status.incarnation = next_incarnation(snapshot);
  delete_pods(snapshot, there, "the quota has no room for the whole gang", plan);
  return true;
}

}  // namespace lockstep::job
