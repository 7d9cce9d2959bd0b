// The work of a leading operator: its duties towards the agents (job/leader_duties.h), and the job controller. One
// thread starts both and keeps the duties, however often and long the API server is away.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "operator/base/clock.h"
#include "operator/base/metrics.h"
#include "operator/base/result.h"
#include "operator/job/fenced_api.h"
#include "operator/job/job_controller.h"
#include "operator/job/leader_duties.h"
#include "operator/kube/api.h"
#include "operator/kube/leader_elector.h"
#include "operator/options.h"
#include "operator/waiting.h"

namespace lockstep {

class Leadership {
 public:
  // Called once, on the thread of the leadership: this process can never lead (the coordinator's port is taken).
  using OnFailed = std::function<void(const Error& error)>;

  // `elector` is null without election; it and the other references outlive this.
  Leadership(const OperatorOptions& options, kube::Api& api, kube::LeaderElector* elector, MetricsRegistry& metrics,
             Clock& clock, OnFailed on_failed);
  // stop()
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  // Begins, and returns. To be called once.
  void start();
  // Ends the duties, then the controller; recorded events have gone out. The coordinator listens until destruction.
  // Blocks for the calls in flight. Idempotent.
  void stop();

  // Success once all duties of a leader are done; otherwise a sentence that says what it waits for. Success before
  // start(). Any thread.
  Status ready() const;
  // False if a worker is stuck. Any thread.
  bool healthy() const;

 private:
  void run(const std::stop_token& stop);
  // One pass. It waits out errors, except those that go to `failed_`.
  Status pass();
  Status start_controller();
  // Asks what this operator may see. Errors: the API server did not say.
  Result<job::JobPlacementOptions> placement_options();
  Status follow_duties();

  const OperatorOptions options_;
  kube::Api& api_;
  kube::LeaderElector* const elector_;
  MetricsRegistry& metrics_;
  Clock& clock_;
  const OnFailed on_failed_;
  job::FencedApi fenced_;
  Waiting waiting_;

  // Used by the thread alone.
  std::optional<job::LeaderDuties> duties_;
  std::string followed_address_;  // the address that the controller has
  std::optional<job::Authority> followed_;
  rendezvous::KeyPair serving_;
  std::optional<Error> failed_;

  std::unique_ptr<job::JobController> controller_;  // created by the thread; constant once leading_ is set
  std::atomic<job::JobController*> leading_{nullptr};
  std::atomic<bool> started_{false};
  std::atomic<bool> kept_{false};  // every duty has been done once, so agents find this process
  std::jthread thread_;            // last: it uses all of the above
};

}  // namespace lockstep
