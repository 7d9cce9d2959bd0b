// What a pod takes of a node, computed as kube-scheduler computes it from the containers of the pod.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/quantity.h"

namespace lockstep::placement {

inline constexpr std::string_view kCpu = "cpu";
inline constexpr std::string_view kPods = "pods";

// Amounts by resource, in the order in which they came. A name occurs once; lookups are linear: pods name few.
class ResourceList {
 public:
  struct Entry {
    std::string name;
    api::Quantity amount;
  };
  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  // Null when it is not named.
  const api::Quantity* find(std::string_view name) const;
  void set(std::string_view name, const api::Quantity& amount);
  void add(const ResourceList& other);
  // Each amount becomes the larger of the two.
  void raise(const ResourceList& other);
  // Takes from `other` what is not named here.
  void fill(const ResourceList& other);

 private:
  std::vector<Entry> entries_;
};

struct ContainerRequests {
  std::string name;
  bool restartable = false;  // an init container with restartPolicy Always: a sidecar
  ResourceList requests, limits;
};

// What the kubelet says of a container: a resize in place shows here before it is done.
struct ContainerAllocation {
  std::string name;
  bool has_resources = false;
  ResourceList requests, allocated;
};

struct PodRequests {
  std::vector<ContainerRequests> containers, init_containers;
  std::vector<ContainerAllocation> statuses;
  bool resize_infeasible = false;  // condition PodResizePending with reason Infeasible
  ResourceList overhead;
  ResourceList pod_requests, pod_limits;  // spec.resources
};

// One resource in whole units: milli-CPUs, bytes, devices. Never negative.
struct Amount {
  std::string name;
  std::int64_t units = 0;

  auto operator<=>(const Amount&) const = default;
};
inline constexpr std::int64_t kMostUnits = std::numeric_limits<std::int64_t>::max();

// The rules, in their order:
// - limits stand in for requests that are not named (the API server stores them so);
// - a resize in place counts as the largest of spec, allocated and actual, an infeasible one without the spec;
// - containers and sidecars add up; an init container needs its own and those of the sidecars before it; the pod needs
//   the larger of the two;
// - spec.resources replaces the sum for cpu, memory and hugepages;
// - overhead is added.
// Zeros are left out. The result is ordered by name, and stays at kMostUnits instead of overflowing.
std::vector<Amount> effective_requests(PodRequests pod);

// Amounts in whole units, rounded up, ordered by name, without zeros.
std::vector<Amount> in_units(const ResourceList& list);

// A quantity in JSON, as a string or a number. Negative amounts are none, and what cannot be read counts as more than
// any node has. A node is rather left free than given away twice.
api::Quantity read_amount(std::string_view text);

}  // namespace lockstep::placement
