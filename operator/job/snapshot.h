// All that one decision may look at. A snapshot is taken once per reconcile and never changes; decide() reads nothing
// else, so a decision can be repeated in a test from plain data.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/pod.h"
#include "operator/api/training_job.h"
#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/placement/gang.h"
#include "operator/rendezvous/coordinator.h"

namespace lockstep::cache {
template <typename T>
class Store;
}

namespace lockstep::job {

// The last create that the API server (or the pod builder) refused and that did not succeed since. Kept in memory by
// the reconciler: after a crash the create is tried, and refused, again.
struct CreateProblem {
  std::string kind;  // "Pod" or "Service"
  std::string name;
  ErrorCode code = ErrorCode::kInternal;  // kAlreadyExists: the name belongs to an object that is not ours
  std::string message;                    // the server's sentence
  WallTime last{};                        // of the newest refusal
  int times = 0;                          // refusals in a row
  std::int64_t job_generation = 0;        // metadata.generation of the job that was refused

  bool operator==(const CreateProblem&) const = default;
};

// What placement says of a job whose pods the operator places.
struct Placing {
  std::optional<placement::Answer> answer{};  // empty: nothing is decided, and no pod is created
  std::string level_name{};                   // of answer->wait.level; "" where that is empty
  std::string spanned{};                      // name of the level answer->where->level_spanned; "" without it
  // Why the job cannot be placed as it asks, until its spec or the operator's options change. Then there is no answer.
  std::string refusal{};
  bool may_end = false;  // the refusal may also end without such a change, and no event tells: ask again
};

// A pod whose node, or a device of it, other tools call sick.
struct Sickness {
  std::string sign;  // half a sentence: "nvidia.com/gpu GPU-0123 is Unhealthy"
  Duration age{};    // since it was seen first
  // Why the sign is doubted, so that the pod stays, as half a sentence; "" where it is not.
  std::string doubt{};

  bool operator==(const Sickness&) const = default;
};

struct Snapshot {
  std::shared_ptr<const api::TrainingJob> job;                    // never null
  std::vector<std::shared_ptr<const api::Pod>> pods;              // those whose controller is this job, by name
  std::map<std::string, std::shared_ptr<const api::Node>> nodes;  // those that the pods run on, as far as known
  std::map<std::string, Sickness> sick_pods;                      // by name; those that are to leave if they can
  // By name: the sign, "label:example.com/dead", by which a node of theirs counts as lost. Without doubted ones.
  std::map<std::string, std::string> dead_nodes;
  bool service_present = false;             // the headless Service, controlled by this job
  std::optional<rendezvous::JobView> view;  // empty: the coordinator does not know the job yet
  // How long ago view->failure was, by a clock that nobody sets back; zero without one.
  Duration failure_age{};
  std::optional<CreateProblem> create_problem;
  std::optional<Placing> placing;  // empty: kube-scheduler places the pods, one by one
  std::string why_not_placing;     // half a sentence, where the operator would place them and cannot; else ""
  std::optional<WallTime> last_status_write;           // by this process
  Duration progress_every = std::chrono::seconds(15);  // progress alone is written once in this time
  bool settling = false;  // this process took over less than a few seconds ago: silence proves nothing yet
  // It took over less than a minute ago: agents are still reconnecting. After an API server that was away, kubelets and
  // kube-proxies may have backed off for so long. Nodes are called not ready that are well, and agents on them do not
  // find this process.
  bool reconnecting = false;
  WallTime now{};  // the only clock beside failure_age
};

// A Service, of which only the existence matters.
struct ServiceRecord {
  api::ObjectMeta meta;
};

// What the caches hold, pods and Services indexed by owner_index(); all of them synced before the first snapshot.
struct Caches {
  const cache::Store<api::TrainingJob>* jobs = nullptr;
  const cache::Store<api::Pod>* pods = nullptr;
  const cache::Store<api::Node>* nodes = nullptr;
  const cache::Store<ServiceRecord>* services = nullptr;
};

// The job, its pods, nodes and Service from the caches; empty when the job is not there. The caller adds the rest
// (view, create_problem, ...). Any thread.
std::optional<Snapshot> gather(const Caches& caches, const api::ObjectKey& key);

// The value under which a cache finds the children of a job. An owner reference names a uid and no namespace, and any
// tenant may write any uid into a pod of its own namespace; so the namespace is part of the value.
std::string owner_index(const std::string& name_space, const std::string& uid);
std::string owner_index(const api::ObjectMeta& child);  // "" when nothing controls `child`

// Incarnations end here: one a second lasts for 31 years. A label above it is not ours.
inline constexpr std::int64_t kMostIncarnation = 1'000'000'000;

// Slot and incarnation of a pod by its labels; empty when they are not numbers in their ranges.
struct PodIdentity {
  int slot = 0;
  std::int64_t incarnation = 0;
};
std::optional<PodIdentity> identity_of(const api::ObjectMeta& meta);

}  // namespace lockstep::job
