// The objects that a job is made of: its headless Service and the pod of a slot, as JSON for the API server. Pure
// functions of the job's spec; who creates them, when, and what an answer means is the reconciler's.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/base/result.h"
#include "operator/job/plan.h"

namespace lockstep::job {

inline constexpr const char* kTrainerContainer = "trainer";       // the container of the user's image
inline constexpr const char* kAgentContainer = "lockstep-agent";  // init container that brings the agent

// What the pods of every job need to know of the operator.
struct AgentSettings {
  std::string image;                // of the init container; it holds /lockstep-agent
  std::string coordinator_address;  // numeric "ip:port"
  std::string coordinator_ca_pem;   // certificates by which agents know the coordinator
  std::vector<std::string> trusts;  // their fingerprints; each is a label of the pod
  // Asks for securityContext.runAsNonRoot, which namespaces that enforce the `restricted` standard want.
  bool run_as_non_root = false;

  bool operator==(const AgentSettings&) const = default;
};

// The label by which a pod says that it trusts the certificate of that fingerprint.
std::string trust_label(const std::string& fingerprint);

// "<job>-<first 4 of its uid>-<slot>-<incarnation>": a DNS-1123 label of at most 63 characters.
std::string pod_name(const api::TrainingJob& job, int slot, std::int64_t incarnation);

// Name of the headless Service, by which pods find each other: the job's own.
std::string service_name(const api::TrainingJob& job);

// The label selector that matches all pods of this very job ("lockstep.dev/job-uid=...").
std::string pod_selector(const api::TrainingJob& job);

// The owner reference that every child carries: controller, and it blocks the deletion of its owner in foreground.
api::OwnerReference owner_reference(const api::TrainingJob& job);

// The headless Service: publishes the addresses of pods that are not ready too, because they meet before they are.
api::Json build_service(const api::TrainingJob& job);

// Makes the pods of a job: builds once what they share, with spec.podTemplate merged in.
class PodMaker {
 public:
  // kInvalid, with a sentence that names the field, when the template cannot be merged or touches what belongs to
  // Lockstep. `job` outlives it.
  static Result<PodMaker> of(const api::TrainingJob& job, AgentSettings settings);

  // The pod of a slot. One that placement gave a node has it in an annotation; gated, it waits for open_pod(), else it
  // can be bound to that node alone. Any other goes to none of `avoid_nodes` where it can. kInvalid: the template's
  // affinity cannot take the node. Any thread.
  Result<api::Json> pod(const PodToCreate& wanted) const;

  const AgentSettings& settings() const { return settings_; }

 private:
  PodMaker(const api::TrainingJob& job, AgentSettings settings, api::Json shared)
      : job_(job), settings_(std::move(settings)), shared_(std::move(shared)) {}

  const api::TrainingJob& job_;
  AgentSettings settings_;
  api::Json shared_;
};

// One pod of a PodMaker.
Result<api::Json> build_pod(const api::TrainingJob& job, const PodToCreate& wanted, const AgentSettings& settings);

// The JSON patch (RFC 6902) that removes the gate of a pod and binds it to its node alone. It holds only for the pod
// with that uid, with the gate, and with that node in its annotation. So an outdated decision changes nothing. `live`:
// the pod as the API server has it, when it has node affinity of its own; each of its terms gets the node.
Result<api::Json> open_pod(const PodToOpen& opening, const api::Json* live);
// The patch that rewrites the annotation of a gated pod, under the same conditions.
api::Json move_pod(const PodToMove& move);

// The same check without a cluster: whether pods could be built from this spec at all.
Status check_pod_template(const api::TrainingJob& job);

}  // namespace lockstep::job
