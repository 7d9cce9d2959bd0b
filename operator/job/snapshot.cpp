#include "operator/job/snapshot.h"

#include "operator/base/number.h"
#include "operator/cache/store.h"
#include "operator/job/children.h"

namespace lockstep::job {
std::string owner_index(const std::string& name_space, const std::string& uid) {
  return "owner/" + name_space + "/" + uid;
}

std::string owner_index(const api::ObjectMeta& child) {
  const std::string uid = child.controller_uid();
  return uid.empty() ? "" : owner_index(child.name_space, uid);
}

std::optional<PodIdentity> identity_of(const api::ObjectMeta& meta) {
  const auto slot = parse_number<int>(meta.label(api::kLabelSlot));
  const auto incarnation = parse_number<std::int64_t>(meta.label(api::kLabelIncarnation));
  if (!slot || !incarnation || *slot < 0 || *incarnation < 0 || *incarnation > kMostIncarnation) return std::nullopt;
  return PodIdentity{*slot, *incarnation};
}

std::optional<Snapshot> gather(const Caches& caches, const api::ObjectKey& key) {
  Snapshot snapshot;
  snapshot.job = caches.jobs->get(key);
  if (!snapshot.job) return std::nullopt;
  // By uid: a job that was deleted and recreated never sees the pods of its predecessor.
  const std::string children = owner_index(key.name_space, snapshot.job->meta.uid);
  snapshot.pods = caches.pods->by_index(children);
  for (const auto& pod : snapshot.pods) {
    if (pod->node_name.empty() || snapshot.nodes.contains(pod->node_name)) continue;
    if (auto node = caches.nodes->get({"", pod->node_name})) snapshot.nodes.emplace(pod->node_name, std::move(node));
  }
  for (const auto& service : caches.services->by_index(children)) {
    if (service->meta.name == service_name(*snapshot.job) && !service->meta.deleted) snapshot.service_present = true;
  }
  return snapshot;
}

}  // namespace lockstep::job
