// Reads the facts that placement needs of a pod from its JSON text, without a DOM.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/json_paths.h"
#include "operator/base/result.h"
#include "operator/placement/effective_requests.h"
#include "operator/placement/pod_record.h"

namespace lockstep::placement {

// Bounds of a scan: a pod beyond them is kInvalid.
inline constexpr std::size_t kMostContainers = 1024;  // init containers and statuses included
inline constexpr std::size_t kMostResources = 64;     // different names

struct ScannedPod {
  std::string name_space, name;
  Uid uid;
  Uid job;           // of a pod with our labels; else zero
  std::string node;  // spec.nodeName; else, of a pod of a job, api::kAnnotationNode; else ""
  std::int32_t priority = 0;
  std::int32_t slot = -1;
  std::uint32_t started = 0;     // status.startTime, in seconds since 1970; 0: it has none that can be read
  std::uint16_t flags = 0;       // PodFlag
  bool terminal = false;         // Succeeded or Failed: it takes nothing
  std::vector<Amount> requests;  // effective_requests(), and one of kPods
};

// What a scan reads of a pod, and metadata.resourceVersion: a text may lack the rest.
const JsonPaths& scanned_pod_fields();

// kInvalid when `text` is not a JSON object with a uid, or goes beyond the bounds. A field of another type than the
// API's is as if it were not there, but an amount counts as read_amount() says.
Result<ScannedPod> scan_pod(std::string_view text);

}  // namespace lockstep::placement
