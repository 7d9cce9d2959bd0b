#include "operator/job/snapshot.h"

#include <charconv>

#include "operator/cache/store.h"
#include "operator/job/children.h"

namespace lockstep::job {
namespace {

template <typename T>
std::optional<T> number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<PodIdentity> identity_of(const api::ObjectMeta& meta) {
  const auto slot = number<int>(meta.label(api::kLabelSlot));
  const auto incarnation = number<std::int64_t>(meta.label(api::kLabelIncarnation));
  if (!slot || !incarnation) return std::nullopt;
  return PodIdentity{*slot, *incarnation};
}

std::optional<Snapshot> gather(const Caches& caches, const api::ObjectKey& key) {
  Snapshot snapshot;
  snapshot.job = caches.jobs->get(key);
  if (!snapshot.job) return std::nullopt;
  // The index holds objects by their controller's uid: a job that was deleted and created anew never sees the old pods.
  snapshot.pods = caches.pods->by_index(snapshot.job->meta.uid);
  for (const auto& pod : snapshot.pods) {
    if (pod->node_name.empty() || snapshot.nodes.contains(pod->node_name)) continue;
    if (auto node = caches.nodes->get({"", pod->node_name})) snapshot.nodes.emplace(pod->node_name, std::move(node));
  }
  for (const auto& service : caches.services->by_index(snapshot.job->meta.uid)) {
    if (service->meta.name == service_name(*snapshot.job) && !service->meta.deleted) snapshot.service_present = true;
  }
  return snapshot;
}

}  // namespace lockstep::job
