#include "operator/job/predecessor.h"

namespace lockstep::job {

Result<bool> left_by_predecessor(kube::Api& api, const api::ObjectMeta& object, const std::string& job,
                                 const std::string& uid) {
  const std::string& labelled = object.label(api::kLabelJobUid);
  const std::string owner = object.controller_uid();
  if (object.label(api::kLabelJob) != job || labelled.empty() || labelled == uid || object.deleted) return false;
  if (!owner.empty() && owner != labelled) return false;
  kube::ListOptions options;
  options.name_space = object.name_space;
  options.field_selector = "metadata.name=" + job;
  LOCKSTEP_TRY(const auto page, api.list(kube::kTrainingJobs, options));
  if (page.items.size() != 1) return false;
  LOCKSTEP_TRY(const auto living, api::parse_meta(page.items.front()));
  return living.uid == uid;
}

}  // namespace lockstep::job
