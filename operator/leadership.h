// What an operator does from when it leads: its duties towards the agents (job/leader_duties.h), and the job
// controller. One thread brings both up and keeps the duties, however often and long the API server is away.
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
  // Told on the thread of the leadership, once: it cannot lead however long it waits (the coordinator's port is taken).
  using OnFailed = std::function<void(const Error& error)>;

  // `elector` is null without election; it and the other references outlive this.
  Leadership(const OperatorOptions& options, kube::Api& api, kube::LeaderElector* elector, MetricsRegistry& metrics,
             Clock& clock, OnFailed on_failed);
  // stop()
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  // Begins, and returns. Once.
  void start();
  // Ends the duties, then the controller; events that were recorded have gone out. The coordinator listens on until
  // destruction. Blocks for the calls in flight. Idempotent.
  void stop();

  // Whether everything that a leader does is done; else a sentence that says what is waited for. Success before
  // start(). Any thread.
  Status ready() const;
  // False when a worker is stuck. Any thread.
  bool healthy() const;

 private:
  void run(const std::stop_token& stop);
  // One pass. Errors are waited for, but for those that `failed_` notes.
  Status pass();
  Status start_controller();
  Status follow_duties();

  const OperatorOptions options_;
  kube::Api& api_;
  kube::LeaderElector* const elector_;
  MetricsRegistry& metrics_;
  Clock& clock_;
  const OnFailed on_failed_;
  job::FencedApi fenced_;
  Waiting waiting_;

  // Of the thread.
  std::optional<job::LeaderDuties> duties_;
  std::string followed_address_;  // what the controller was last told
  std::optional<job::Authority> followed_;
  rendezvous::KeyPair serving_;
  std::optional<Error> failed_;

  std::unique_ptr<job::JobController> controller_;  // made by the thread; constant once leading_ is set
  std::atomic<job::JobController*> leading_{nullptr};
  std::atomic<bool> started_{false};
  std::atomic<bool> kept_{false};  // every duty has been done once, so agents find this process
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace lockstep
