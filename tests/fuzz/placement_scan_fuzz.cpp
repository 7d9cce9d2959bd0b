// Anything at all as the text of a pod or a node: the scans of placement read it without harm.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "operator/placement/node_scan.h"
#include "operator/placement/pod_scan.h"

extern "C" int placement_scan_fuzz(const std::uint8_t* data, size_t size);

namespace {

void check_amounts(const std::vector<lockstep::placement::Amount>& amounts) {
  for (const auto& amount : amounts) {
    if (amount.units <= 0) std::abort();
  }
  const bool ordered =
      std::is_sorted(amounts.begin(), amounts.end(), [](const auto& a, const auto& b) { return a.name <= b.name; });
  if (!ordered) std::abort();
}

}  // namespace

extern "C" int placement_scan_fuzz(const std::uint8_t* data, size_t size) {
  using namespace lockstep::placement;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto pod = scan_pod(text)) {
    check_amounts(pod->requests);
    if (pod->uid.is_zero() || pod->requests.empty()) std::abort();
  }
  static const SickSigns signs = *SickSigns::of_flags({"label:rack=r9", "taint:a", "condition:Ready=False"});
  if (const auto node = scan_node(text, {"rack"}, signs)) {
    check_amounts(node->allocatable);
    if (node->name.empty() || node->labels.size() > 1) std::abort();
  }
  static_cast<void>(scan_name(text));
  return 0;
}
