// The API of a Kubernetes server in the memory of this process, for `lockstep run` and for tests of its callers. It has
// the resourceVersions, watches, conflicts, preconditions, status subresources, graceful deletion and cascade of the
// real one, for the resources that Lockstep uses. One contract suite runs against both.
//
// It lacks schemas, defaulting and admission (a job file is validated before), RBAC, and namespaces as objects (every
// namespace exists).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "operator/base/clock.h"
#include "operator/kube/api.h"

namespace lockstep::local {

struct MemoryApiOptions {
  size_t history = 10'000;            // events kept for watches; an older resourceVersion is kGone
  size_t most_events = 1'000;         // stored Event objects; the oldest go first, as a server's TTL does
  size_t most_unfinished_lists = 16;  // lists in the middle of paging; an older token is kGone
  Duration bookmark_every = std::chrono::seconds(30);  // on a watch that had no event meanwhile
};

// The owner of a token; the answer of TokenReview.
struct TokenOwner {
  std::string name_space, pod_name, pod_uid;
};

// Thread-safe throughout. Callbacks of watch() run on the watcher's thread with no lock held.
class MemoryApi final : public kube::Api {
 public:
  using Json = kube::Json;
  // The target of read_log(): the runtime that has the files.
  using LogReader =
      std::function<Status(const std::string& name_space, const std::string& pod, const kube::LogOptions& options,
                           const std::function<bool(std::string_view)>& on_data, std::stop_token stop)>;

  explicit MemoryApi(Clock& clock = SystemClock::instance(), MemoryApiOptions options = {});
  ~MemoryApi() override;

  Result<Json> get(const kube::Resource& resource, const std::string& name_space, const std::string& name) override;
  Result<kube::ListPage> list(const kube::Resource& resource, const kube::ListOptions& options) override;
  Status watch(const kube::Resource& resource, const kube::WatchOptions& options,
               const std::function<bool(kube::WatchEvent)>& on_event, std::stop_token stop) override;
  // Creating a TokenReview answers it and stores nothing.
  Result<Json> create(const kube::Resource& resource, const std::string& name_space, const Json& object,
                      const kube::WriteOptions& options = {}) override;
  Result<Json> replace(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                       const Json& object, const std::string& subresource = "",
                       const kube::WriteOptions& options = {}) override;
  Result<Json> patch(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                     kube::PatchType type, const Json& patch, const std::string& subresource = "",
                     const kube::WriteOptions& options = {}) override;
  // A pod that is bound and not terminal gets a deletionTimestamp. It stays until it is deleted again with grace period
  // 0, which the runtime does once its processes have ended. Everything else is deleted at once, with the objects that
  // it owns, except for propagation "Orphan".
  Status remove(const kube::Resource& resource, const std::string& name_space, const std::string& name,
                const kube::DeleteOptions& options = {}) override;
  Status read_log(const std::string& name_space, const std::string& pod, const kube::LogOptions& options,
                  const std::function<bool(std::string_view)>& on_data, std::stop_token stop) override;

  // A new bearer token with audience "lockstep" for this pod; valid for as long as the pod of that uid exists.
  std::string issue_token(const TokenOwner& owner);
  void set_log_reader(LogReader reader);
  // The newest resourceVersion; grows by one with every change of any object.
  std::uint64_t version() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::local
