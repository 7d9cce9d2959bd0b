#include "operator/run_operator.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "operator/base/log.h"
#include "operator/base/metrics.h"
#include "operator/base/version.h"
#include "operator/job/job_controller.h"
#include "operator/kube/http_api.h"
#include "operator/kube/kubeconfig.h"
#include "operator/kube/leader_elector.h"
#include "operator/leadership.h"
#include "operator/ops/http_server.h"

namespace lockstep {
namespace {

constexpr int kLeads = SIGUSR1;  // from the elector's thread to ours
constexpr int kLost = SIGUSR2;

int give_up(const Error& error) {
  std::cerr << "lockstep-operator: " << error.message << "\n";
  return 1;
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, kLeads, kLost}) sigaddset(&set, signal);
  return set;
}

// The same program with the same arguments: no state of this term survives, and the pod does not restart.
[[noreturn]] void start_anew(char** argv) {
  log::warn("the lease is lost; starting anew");
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  execv("/proc/self/exe", argv);
  _exit(1);
}

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
  if (auto allowed = job::check_access(**api, options.watch_namespace); !allowed) return give_up(allowed.error());

  std::unique_ptr<job::JobController> controller;
  std::atomic<const job::JobController*> leading{nullptr};
  std::atomic<bool> stopping{false};
  const auto alive = [&]() -> Status {
    const auto* leader = leading.load();
    if (leader != nullptr && !leader->healthy()) return fail(ErrorCode::kInternal, "a worker is stuck");
    return {};
  };
  const auto ready = [&]() -> Status {
    const auto* leader = leading.load();
    if (stopping) return fail(ErrorCode::kUnavailable, "shutting down");
    if (leader != nullptr && !leader->synced()) return fail(ErrorCode::kUnavailable, "the caches are not filled yet");
    return {};
  };
  auto http = ops::HttpServer::start({.address = options.metrics_host, .port = options.metrics_port},
                                     {.metrics = [&] { return metrics.text(); }, .healthy = alive, .ready = ready});
  if (!http) return give_up(http.error());
  log::info("started", {{"version", version_and_commit()},
                        {"cluster", access->server},
                        {"metrics port", std::to_string((*http)->port())}});

  std::optional<kube::LeaderElector> elector;
  if (options.leader_elect) {
    const auto tell = [pid = getpid()](int signal) { kill(pid, signal); };
    auto election = kube::leader_options(std::chrono::seconds(options.lease_seconds));
    election.name_space = options.name_space;
    election.identity = kube::make_leader_identity();
    elector.emplace(**api, clock, metrics, election,
                    kube::LeaderElector::Callbacks{[=](std::int64_t) { tell(kLeads); }, [=] { tell(kLost); }});
    elector->start();
  } else {
    kill(getpid(), kLeads);
  }
  int status = 0;
  for (int signal = 0; sigwait(&signals, &signal) == 0 && signal != SIGTERM && signal != SIGINT;) {
    if (signal == kLost) start_anew(argv);
    auto started = lead(options, **api, elector ? &*elector : nullptr, metrics, clock);
    if (!started) {
      status = give_up(started.error());
      break;
    }
    controller = std::move(*started);
    leading = controller.get();
  }
  log::info("stopping");
  stopping = true;
  sigset_t ending = signals;
  sigdelset(&ending, kLeads);
  sigdelset(&ending, kLost);
  pthread_sigmask(SIG_UNBLOCK, &ending, nullptr);  // a second signal ends the process at once
  if (controller) controller->stop();
  if (elector) elector->release();
  http->reset();
  return status;
}

}  // namespace lockstep
