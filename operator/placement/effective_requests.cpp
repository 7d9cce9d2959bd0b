#include "operator/placement/effective_requests.h"

#include <algorithm>

namespace lockstep::placement {
namespace {

bool is_pod_level(std::string_view name) {
  return name == kCpu || name == "memory" || name.substr(0, 10) == "hugepages-";
}

// What the container takes, given what the kubelet says of it.
ResourceList current(const ContainerRequests& container, const PodRequests& pod) {
  const auto status = std::find_if(pod.statuses.begin(), pod.statuses.end(),
                                   [&](const ContainerAllocation& one) { return one.name == container.name; });
  if (status == pod.statuses.end() || !status->has_resources) return container.requests;
  ResourceList taken = pod.resize_infeasible ? ResourceList() : container.requests;
  taken.raise(status->requests);
  taken.raise(status->allocated);
  return taken;
}

}  // namespace

const api::Quantity* ResourceList::find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.name == name) return &entry.amount;
  }
  return nullptr;
}

void ResourceList::set(std::string_view name, const api::Quantity& amount) {
  for (Entry& entry : entries_) {
    if (entry.name == name) {
      entry.amount = amount;
      return;
    }
  }
  entries_.push_back({std::string(name), amount});
}

void ResourceList::add(const ResourceList& other) {
  for (const Entry& entry : other.entries_) {
    const api::Quantity* mine = find(entry.name);
    api::Quantity sum = mine == nullptr ? api::Quantity() : *mine;
    set(entry.name, sum += entry.amount);
  }
}

void ResourceList::raise(const ResourceList& other) {
  for (const Entry& entry : other.entries_) {
    const api::Quantity* mine = find(entry.name);
    if (mine == nullptr || *mine < entry.amount) set(entry.name, entry.amount);
  }
}

void ResourceList::fill(const ResourceList& other) {
  for (const Entry& entry : other.entries_) {
    if (find(entry.name) == nullptr) entries_.push_back(entry);
  }
}

std::vector<Amount> effective_requests(PodRequests pod) {
  for (auto* containers : {&pod.containers, &pod.init_containers}) {
    for (ContainerRequests& container : *containers) container.requests.fill(container.limits);
  }
  ResourceList sum, sidecars, start;
  for (const ContainerRequests& container : pod.containers) sum.add(current(container, pod));
  for (const ContainerRequests& container : pod.init_containers) {
    if (container.restartable) {
      const ResourceList taken = current(container, pod);
      sum.add(taken);
      sidecars.add(taken);
      start.raise(sidecars);
    } else {
      ResourceList taken = container.requests;
      taken.add(sidecars);
      start.raise(taken);
    }
  }
  sum.raise(start);
  for (const auto& [name, amount] : pod.pod_requests.entries()) {
    if (is_pod_level(name)) sum.set(name, amount);
  }
  for (const auto& [name, amount] : pod.pod_limits.entries()) {
    if (is_pod_level(name) && sum.find(name) == nullptr) sum.set(name, amount);
  }
  sum.add(pod.overhead);
  return in_units(sum);
}

std::vector<Amount> in_units(const ResourceList& list) {
  std::vector<Amount> amounts;
  for (const auto& [name, amount] : list.entries()) {
    const std::int64_t units = name == kCpu ? amount.ceil_milli() : amount.ceil();
    if (units > 0) amounts.push_back({name, units});
  }
  std::sort(amounts.begin(), amounts.end(), [](const Amount& a, const Amount& b) { return a.name < b.name; });
  return amounts;
}

api::Quantity read_amount(std::string_view text) {
  auto amount = api::Quantity::parse(text);
  if (!amount) amount = api::Quantity::parse("9223372036854775807");
  return amount->is_negative() ? api::Quantity() : *amount;
}

}  // namespace lockstep::placement
