#include "operator/run_operator.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "operator/base/backoff.h"
#include "operator/base/log.h"
#include "operator/base/metrics.h"
#include "operator/base/version.h"
#include "operator/job/job_controller.h"
#include "operator/kube/http_api.h"
#include "operator/kube/kubeconfig.h"
#include "operator/kube/leader_elector.h"
#include "operator/kube/tls_context.h"
#include "operator/leadership.h"
#include "operator/ops/http_server.h"
#include "operator/waiting.h"

namespace lockstep {
namespace {

constexpr int kWake = SIGUSR1;  // from other threads to main's: a state below has changed
constexpr BackoffOptions kAskAgain{
    .first = std::chrono::milliseconds(200), .most = std::chrono::seconds(5), .jitter = 0.5};

int give_up(const Error& error) {
  std::cerr << "lockstep-operator: " << error.message << "\n";
  return 1;
}

constexpr timespec kTrimEvery{.tv_sec = 60, .tv_nsec = 0};

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, kWake}) sigaddset(&set, signal);
  return set;
}

// The same program with the same arguments: no state of this term survives, and the pod does not restart.
[[noreturn]] void start_anew(char** argv) {
  log::warn("the lease is lost; restarting");
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  for (const auto& [name, value] : kube::spared_environment()) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
  execv("/proc/self/exe", argv);
  _exit(1);
}

// One sentence for people: what is missing, or which server does not answer.
std::string sentence_of(const Error& error) {
  const bool away = error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kDeadlineExceeded;
  return away ? "the API server does not answer: " + error.message : error.message;
}

// Members are destroyed in reverse: one that points to another stands below it.
class Operator {
 public:
  Operator(const OperatorOptions& options, std::unique_ptr<kube::Api> api, Clock& clock, MetricsRegistry& metrics)
      : options_(options), clock_(clock), api_(std::move(api)), starting_(clock) {
    if (options.leader_elect) {
      auto election = kube::leader_options(std::chrono::seconds(options.lease_seconds));
      election.name_space = options.name_space;
      election.identity = kube::make_leader_identity();
      elector_.emplace(*api_, clock, metrics, election,
                       kube::LeaderElector::Callbacks{[this](std::int64_t) { tell(leads_); }, [this] { tell(lost_); }});
    }
    leadership_.emplace(options_, *api_, elector_ ? &*elector_ : nullptr, metrics, clock, [this](const Error& error) {
      std::cerr << "lockstep-operator: " << error.message << "\n";
      tell(failed_);
    });
  }

  // Becomes a candidate as soon as the API server answers and has the objects that it needs.
  void start() {
    starting_.because("the API server has not answered yet");
    candidacy_ = std::jthread([this](const std::stop_token& stop) { become_candidate(stop); });
  }

  // Until a signal requests the end. The exit status.
  int wait(const sigset_t& signals, char** argv) {
    bool started = false;
    for (;;) {
      const int signal = sigtimedwait(&signals, nullptr, &kTrimEvery);
      if (signal == SIGTERM || signal == SIGINT) break;
      // Returns the memory that a burst of pods freed to the machine.
      if (signal < 0) malloc_trim(0);
      if (lost_) start_anew(argv);
      if (failed_) return 1;
      if (leads_ && !std::exchange(started, true)) leadership_->start();
    }
    return 0;
  }

  void stop() {
    stopping_ = true;
    candidacy_.request_stop();
    leadership_->stop();
    if (candidacy_.joinable()) candidacy_.join();
    if (elector_) elector_->release();
  }

  Status ready() const {
    if (stopping_) return fail(ErrorCode::kUnavailable, "shutting down");
    LOCKSTEP_CHECK_OK(starting_.status());
    return leadership_->ready();
  }
  Status alive() const { return leadership_->healthy() ? Status() : fail(ErrorCode::kInternal, "a worker is stuck"); }

 private:
  static void tell(std::atomic<bool>& what) {
    what = true;
    kill(getpid(), kWake);
  }

  void become_candidate(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable wake;
    const std::stop_callback on_stop(stop, [&] {
      const std::lock_guard guard(mutex);
      wake.notify_all();
    });
    Backoff backoff(kAskAgain);
    for (;;) {
      const Status allowed = job::check_access(*api_, options_.watch_namespace);
      if (stop.stop_requested()) return;
      if (allowed) break;
      starting_.because(sentence_of(allowed.error()));
      std::unique_lock lock(mutex);
      const auto until = clock_.now() + backoff.next();
      while (!stop.stop_requested() && clock_.now() < until) clock_.wait_until(lock, wake, until);
    }
    starting_.over();
    if (elector_) {
      elector_->start();
    } else {
      tell(leads_);
    }
  }

  const OperatorOptions options_;
  Clock& clock_;
  const std::unique_ptr<kube::Api> api_;
  Waiting starting_;
  std::atomic<bool> leads_{false};
  std::atomic<bool> lost_{false};
  std::atomic<bool> failed_{false};
  std::atomic<bool> stopping_{false};
  std::optional<kube::LeaderElector> elector_;
  std::optional<Leadership> leadership_;
  std::jthread candidacy_;
};

}  // namespace

int run_operator(const OperatorOptions& options, char** argv, const WrapApi& wrap) {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread starts
  auto& clock = SystemClock::instance();
  MetricsRegistry metrics;
  const auto environment = kube::process_environment();
  const auto access = kube::find_access({.kubeconfig = options.kubeconfig, .context = ""}, environment, clock);
  if (!access) return give_up(access.error());
  auto api = kube::make_http_api(*access, environment, clock, metrics);
  if (!api) return give_up(api.error());
  if (wrap) *api = wrap(std::move(*api));
  if (options.advertise_address.empty() && options.pod_ip.empty()) {
    return give_up(fail(ErrorCode::kInvalid,
                        "agents need an address to dial: set POD_IP in a pod, or --coordinator-advertise-address "
                        "outside of the cluster"));
  }
  Operator running(options, std::move(*api), clock, metrics);
  auto http = ops::HttpServer::start({.address = options.metrics_host, .port = options.metrics_port},
                                     {.metrics = [&] { return metrics.text(); },
                                      .healthy = [&] { return running.alive(); },
                                      .ready = [&] { return running.ready(); }});
  if (!http) return give_up(http.error());
  log::info("started", {{"version", version_and_commit()},
                        {"cluster", access->server},
                        {"metrics port", std::to_string((*http)->port())}});
  running.start();
  const int status = running.wait(signals, argv);
  log::info("stopping");
  sigset_t ending = signals;
  sigdelset(&ending, kWake);
  pthread_sigmask(SIG_UNBLOCK, &ending, nullptr);  // a second signal ends the process at once
  running.stop();
  http->reset();
  return status;
}

}  // namespace lockstep
