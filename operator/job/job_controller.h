// Everything that is needed to run TrainingJobs over a kube::Api. It has caches of jobs, pods, nodes and services, the
// work queue and its workers, the reconciler, and the coordinator that the agents talk to. The operator's main() and
// `lockstep run` both start exactly this; they differ in the Api that they hand in and in a few options.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/base/result.h"
#include "operator/job/executor.h"
#include "operator/job/job_placement.h"
#include "operator/kube/api.h"
#include "operator/placement/profile.h"
#include "operator/placement/sickness.h"
#include "operator/rendezvous/coordinator.h"

namespace lockstep::job {

struct JobControllerOptions {
  std::string watch_namespace;  // jobs of this namespace only; "" for all
  std::string agent_image;      // image of the init container that brings the agent into a pod
  // What pods are told to dial: numeric "ip:port", or "ip" (or "[ip]") for the port on which the coordinator listens.
  // Empty: the very address on which it listens.
  std::string advertise_address;
  std::string coordinator_ca_pem;              // certificates of the authority, for LOCKSTEP_COORDINATOR_CA
  rendezvous::CoordinatorOptions coordinator;  // where to listen, serving certificate and key, term

  std::string event_source = "lockstep.dev/operator";  // reportingController of events
  std::string instance;                                // reportingInstance
  placement::Profile topology;                         // levels of placement and of ranks; none: a flat cluster
  placement::SickSigns sick_signs;                     // nodes with one of them get no pods from placement
  placement::SickSigns leave_signs;                    // members leave nodes with one of them; also in sick_signs
  placement::SickSigns dead_signs;                     // nodes with one of them count as lost; also in sick_signs
  bool leave_unhealthy_devices = true;                 // and pods with a device that the kubelet calls unhealthy
  std::optional<JobPlacementOptions> placement;        // empty: kube-scheduler places the pods of all jobs
  int workers = 4;                                     // jobs that are reconciled at the same time
  int most_bulk_writes = ExecutorOptions().most;       // creates and deletes of pods under way at most, of all jobs
  Duration resync_every = std::chrono::hours(1);       // every job is looked at again after this, event or not
  // A reconcile or a bulk write that lasts longer makes healthy() false: several deadlines of a call.
  Duration stuck_after = std::chrono::minutes(1);

  // Asked right before each write; false refuses it with kCancelled. Empty: always allowed. The operator passes the
  // leader elector's deadline check.
  std::function<bool()> may_write;
  // Checks tokens of agents. Null: TokenReview of the Api. Must outlive the controller.
  rendezvous::MemberAuthenticator* authenticator = nullptr;
  // Makes the coordinator; empty: rendezvous::start_coordinator(). Tests put a scripted one here.
  std::function<Result<std::unique_ptr<rendezvous::Coordinator>>(
      const rendezvous::CoordinatorOptions&, rendezvous::GenerationStore&, rendezvous::MemberAuthenticator&, Clock&,
      rendezvous::OnViewChange)>
      make_coordinator;
};

// Owns its threads (watches, workers, coordinator). Destruction stops them: running reconciles finish, nothing new
// starts. Pods and agents are not touched by stopping; another controller carries on.
class JobController {
 public:
  virtual ~JobController() = default;
  // Refuses new work and waits for running reconciles (at most until their calls' own deadlines). Then stops the
  // watches and delivers the events recorded so far (within 2 s); a leader gives its Lease back after this. The
  // coordinator listens on until destruction. Idempotent; any thread but a worker's.
  virtual void stop() = 0;
  // "ip:port" that pods are told to dial.
  virtual std::string advertise_address() const = 0;
  // Pods that are built from now on dial `advertise_address` (as in JobControllerOptions) and trust `ca_pem`; the
  // coordinator serves new connections with `serving`. kInvalid when that is no certificate with its key. Any thread.
  virtual Status change_access(const std::string& advertise_address, const std::string& ca_pem,
                               const rendezvous::KeyPair& serving) = 0;
  // True once every cache has been filled (readiness); nothing is written before. Any thread.
  virtual bool synced() const = 0;
  // True while no worker is stuck inside one reconcile, nor the executor inside one write (liveness). An API server
  // that is away makes neither stuck. Any thread.
  virtual bool healthy() const = 0;
  // For views of jobs in the same process (`lockstep run`'s live display). Any thread; until destruction.
  virtual const rendezvous::Coordinator& coordinator() const = 0;
};

// Whether the caches could be filled: one small list of each kind. Errors are one sentence for people: kNotFound when
// the CRD is not installed, kForbidden without permission, kUnavailable when the server does not answer.
Status check_access(kube::Api& api, const std::string& watch_namespace);

// Starts the coordinator, the caches and the workers, and returns; the workers begin when every cache is filled. `api`,
// `metrics` and `clock` must outlive the controller; ask check_access() first. Errors: kInvalid for a serving
// certificate or a listen address that is none, kUnavailable when the port of the coordinator is taken.
Result<std::unique_ptr<JobController>> start_job_controller(const JobControllerOptions& options, kube::Api& api,
                                                            MetricsRegistry& metrics, Clock& clock);

}  // namespace lockstep::job
