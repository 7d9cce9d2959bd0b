// What one plan does to pods and the Service, as a row of writes that an Executor makes. Each write says what it
// writes, what an answer means, and what is known in the end.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/base/result.h"
#include "operator/control/own_writes.h"
#include "operator/job/children.h"
#include "operator/job/plan.h"
#include "operator/job/snapshot.h"
#include "operator/kube/api.h"
#include "operator/placement/gang.h"

namespace lockstep::job {

// Names under which own writes are awaited.
inline constexpr const char* kJobCache = "TrainingJob";
inline constexpr const char* kPodCache = "Pod";
inline constexpr const char* kServiceCache = "Service";

// The resourceVersion of an object that the server sent; "" when it has none.
std::string resource_version_of(const kube::Json& object);

// Thread-safe. Deletes come first, then the Service, then the pods that are created, then those that are moved, and
// then those whose gate is removed.
class ChildWrites {
 public:
  // Outlive the writes.
  struct Tools {
    kube::Api& api;
    control::OwnWrites& own_writes;
    Clock& clock;
    Counter& pods_created;
    Counter& pods_deleted;
  };
  struct Outcome {
    // Creates that were refused for good, by the newest refusal; `times` is 0.
    std::optional<CreateProblem> refusal;
    std::optional<Error> error;  // worth a retry
    bool created = false;        // at least one create succeeded
    bool run_as_non_root = false;
  };

  // What a pod knows of the operator. Asked for each pod right before its create: the plan may be older than a rotation
  // of the authority. Any thread.
  using AgentNow = std::function<AgentSettings()>;

  // What placement says right before a write. While the plan waits for its turn, the answer may change and another gang
  // get the node. Any thread.
  struct Placement {
    // Still gives its node to a pod that is created with a gate.
    std::function<bool(const PodToCreate&)> gives;
    // Lets a pod be bound to its node; else the pod is left as it is. As PlacementDesk has them.
    std::function<bool(const placement::Opening&)> open;
    std::function<void(const placement::Opening&, const std::string& uid,
                       const std::optional<std::string>& resource_version)>
        opened;
  };

  // `plan`: its deletes, service, creates, moves and opens are read. `run_as_non_root`: the namespace asked for
  // it.
  ChildWrites(const Tools& tools, AgentNow agent, Placement placement, bool run_as_non_root,
              std::shared_ptr<const api::TrainingJob> job, const Plan& plan);

  std::size_t count() const { return deletes_.size() + services() + creates_.size() + moves_.size() + opens_.size(); }
  // Deletes end before creates begin, the Service's step before the pods, and the first pod is made alone. What is
  // refused for one is refused for all, and a server that is away costs one call.
  std::set<std::size_t> barriers() const;
  // Makes write i. An error: the next would meet it as well.
  Status write(std::size_t i);
  // What is known so far.
  Outcome outcome() const;

 private:
  // Writes that concern the Service: 0 or 1.
  std::size_t services() const { return service_ == ServiceStep::kNone ? 0 : 1; }
  // As placement names a pod.
  std::string placed_name(const std::string& pod) const { return job_->meta.name_space + "/" + pod; }
  Status remove_pod(const PodToDelete& removal);
  // What is known of an object after a write; empty: nothing was written.
  using Written = std::optional<api::ObjectMeta>;

  // Applies a patch that holds under conditions only. Empty when they no longer hold: the decision is outdated, and the
  // caches will show why. `made`: whether the pod shows that an earlier try succeeded, whose answer was lost.
  Result<Written> patch_pod(const std::string& name, const kube::Json& patch, const char* doing,
                            const std::function<bool(const kube::Json& pod)>& made = {});
  Result<Written> open_pod(const PodToOpen& opening);
  // Makes a pod. It asks for the settings.
  Result<kube::Json> make_pod(const PodToCreate& wanted, bool run_as_non_root);
  // Makes and creates a pod; once more when the namespace turns out to require runAsNonRoot.
  Result<Written> create_pod(const PodToCreate& wanted);
  // Makes a write that opens a pod, if placement lets it.
  Result<Written> place(const placement::Opening& opening, const std::function<Result<Written>()>& write);
  // Success also when the object is there already and is ours. kAlreadyExists: it is not.
  Result<Written> create_one(const kube::Resource& resource, const char* cache, const kube::Json& object);
  // kCreate: as create_one(). kLook: the same if an object has the Service's name; else nothing is written.
  Result<Written> write_service();
  // Makes the Service of a job that is gone this job's own. kAlreadyExists: it is somebody else's.
  Result<Written> take_over_service(kube::Json existing, const api::ObjectMeta& meta, const kube::Json& wanted);
  // Remembers what became of a create; an error when the others need not be tried.
  Status judge(const char* kind, const std::string& name, const Result<Written>& created);

  const Tools tools_;
  const AgentNow agent_;
  const Placement placement_;
  const std::shared_ptr<const api::TrainingJob> job_;
  const std::vector<PodToDelete> deletes_;
  const ServiceStep service_;
  const std::vector<PodToCreate> creates_;
  const std::vector<PodToMove> moves_;
  const std::vector<PodToOpen> opens_;
  std::atomic<bool> run_as_non_root_;
  mutable std::mutex mutex_;
  Outcome outcome_;                        // protected by mutex_
  std::shared_ptr<const PodMaker> maker_;  // of settings that were asked for; protected by mutex_
};

}  // namespace lockstep::job
