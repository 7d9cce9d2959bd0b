// The API of a Kubernetes server as a seam: HttpApi talks to a real one, local::MemoryApi keeps objects in memory for
// `lockstep run`. One contract suite runs against both. Objects are JSON; callers parse the fields that they need.
//
// All calls block, have a deadline, and return failures as values. These are kNotFound, kAlreadyExists, kConflict,
// kGone, kForbidden, kUnauthorized, kInvalid (422/400, the server's sentence as message), kTooManyRequests
// (retry_after_seconds set), kUnavailable, kDeadlineExceeded, kCancelled. Any thread of this process.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/json_paths.h"
#include "operator/base/result.h"

namespace lockstep::kube {

using Json = nlohmann::json;

// A kind of object; the constants below are those that Lockstep uses.
struct Resource {
  std::string group;  // "" for core
  std::string version;
  std::string plural;
  std::string kind;
  bool namespaced = true;

  std::string api_version() const { return group.empty() ? version : group + "/" + version; }
  bool operator==(const Resource&) const = default;
};

inline const Resource kTrainingJobs{"lockstep.dev", "v1alpha1", "trainingjobs", "TrainingJob"};
inline const Resource kPods{"", "v1", "pods", "Pod"};
inline const Resource kNodes{"", "v1", "nodes", "Node", false};
inline const Resource kServices{"", "v1", "services", "Service"};
inline const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap"};
inline const Resource kSecrets{"", "v1", "secrets", "Secret"};
inline const Resource kEvents{"events.k8s.io", "v1", "events", "Event"};
inline const Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};
inline const Resource kEndpointSlices{"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"};
inline const Resource kTokenReviews{"authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false};
inline const Resource kPriorityClasses{"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false};

struct ListOptions {
  std::string name_space;      // "" means all
  std::string label_selector;  // "lockstep.dev/job-uid=..."
  std::string field_selector;
  std::string resource_version;  // "" is the newest
  int limit = 500;               // objects a page
  std::string continue_token;
  // Of list_text(): what the caller reads of an object, whose text may lack the rest. Null: all. It outlives the call.
  const JsonPaths* fields = nullptr;
};

struct ListPage {
  std::vector<Json> items;
  std::string resource_version;  // of the list: where a watch starts
  std::string continue_token;    // "" when it was the last page
};

// A page whose items went elsewhere.
struct ListEnd {
  std::string resource_version;
  std::string continue_token;
};

struct WatchOptions {
  std::string name_space;
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;  // watch starts after it
  int timeout_seconds = 300;     // the server ends the watch after this; bookmarks are always asked for
  // What the caller reads of an object, which may lack the rest. Null: all, but of watch() without managedFields. It
  // outlives the call.
  const JsonPaths* fields = nullptr;
};

enum class WatchEventType { kAdded, kModified, kDeleted, kBookmark };

struct WatchEvent {
  WatchEventType type;
  Json object;
};

struct WriteOptions {
  bool strict = false;  // fieldValidation=Strict: unknown and duplicate fields are kInvalid
  bool dry_run = false;
  std::string field_manager = "lockstep-operator";
  // One of many: the caller limits how many are in flight, and no other call waits for them. create() may then return
  // the object's metadata alone.
  bool bulk = false;
};

enum class PatchType { kMerge, kJson, kStrategicMerge, kApply };

struct DeleteOptions {
  std::string uid;               // precondition; "" for none
  std::string resource_version;  // precondition; "" for none
  std::optional<int> grace_period_seconds;
  std::string propagation = "Background";
  bool bulk = false;  // as in WriteOptions
};

struct LogOptions {
  std::string container;
  bool follow = false;
  bool timestamps = false;
  bool previous = false;
  std::optional<int> tail_lines;
};

class Api {
 public:
  virtual ~Api() = default;

  virtual Result<Json> get(const Resource& resource, const std::string& name_space, const std::string& name) = 0;
  virtual Result<ListPage> list(const Resource& resource, const ListOptions& options) = 0;

  // Calls `on_event` for each event, on the calling thread. Ends when the server ends the watch (success), when `stop`
  // is requested (kCancelled) or `on_event` returns false (success). kGone: the resourceVersion is too old, in either
  // shape. kDeadlineExceeded: no byte arrived for the idle deadline. Undecodable lines are counted, logged and skipped.
  virtual Status watch(const Resource& resource, const WatchOptions& options,
                       const std::function<bool(WatchEvent)>& on_event, std::stop_token stop) = 0;

  // As list() and watch(), but objects cross as JSON text. It is for a caller that reads a few fields of very many
  // objects, for which no Json is made. Texts are valid during the call. An item comes when its whole page is there,
  // and without its kind; that its text is JSON is the caller's to find out. An Api whose objects are no text writes
  // them.
  virtual Result<ListEnd> list_text(const Resource& resource, const ListOptions& options,
                                    const std::function<void(std::string_view item)>& on_item);
  virtual Status watch_text(const Resource& resource, const WatchOptions& options,
                            const std::function<bool(WatchEventType type, std::string_view object)>& on_event,
                            std::stop_token stop);

  virtual Result<Json> create(const Resource& resource, const std::string& name_space, const Json& object,
                              const WriteOptions& options = {}) = 0;
  // PUT; object.metadata.resourceVersion makes it conditional (kConflict). `subresource`: "" or "status".
  virtual Result<Json> replace(const Resource& resource, const std::string& name_space, const std::string& name,
                               const Json& object, const std::string& subresource = "",
                               const WriteOptions& options = {}) = 0;
  virtual Result<Json> patch(const Resource& resource, const std::string& name_space, const std::string& name,
                             PatchType type, const Json& patch, const std::string& subresource = "",
                             const WriteOptions& options = {}) = 0;
  virtual Status remove(const Resource& resource, const std::string& name_space, const std::string& name,
                        const DeleteOptions& options = {}) = 0;

  // Lines (chunks as they come) of a container's log until its end, `stop`, or `on_data` returning false.
  virtual Status read_log(const std::string& name_space, const std::string& pod, const LogOptions& options,
                          const std::function<bool(std::string_view)>& on_data, std::stop_token stop) = 0;
};

}  // namespace lockstep::kube
