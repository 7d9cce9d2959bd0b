#include "operator/leadership.h"

#include <condition_variable>
#include <string>
#include <utility>

#include "operator/base/backoff.h"
#include "operator/base/log.h"
#include "operator/job/placement_access.h"

namespace lockstep {
namespace {

// A deleted EndpointSlice is back within this. Three small reads: a watch of each would hold three connections for it.
constexpr Duration kLookEvery = std::chrono::seconds(3);
constexpr BackoffOptions kRetry{
    .first = std::chrono::milliseconds(200), .most = std::chrono::seconds(5), .jitter = 0.5};

job::LeaderDutiesOptions duties_options(const OperatorOptions& options, const kube::LeaderElector* elector) {
  job::LeaderDutiesOptions duties;
  duties.name_space = options.name_space;
  duties.watch_namespace = options.watch_namespace;
  duties.lease_term = elector != nullptr ? elector->term() : 0;
  duties.advertise_address = options.advertise_address;
  duties.pod_ip = options.pod_ip;
  return duties;
}

std::function<bool()> fence(const kube::LeaderElector* elector) {
  if (elector == nullptr) return {};
  return [elector] { return elector->is_leader_now(); };
}

}  // namespace

Leadership::Leadership(const OperatorOptions& options, kube::Api& api, kube::LeaderElector* elector,
                       MetricsRegistry& metrics, Clock& clock, OnFailed on_failed)
    : options_(options),
      api_(api),
      elector_(elector),
      metrics_(metrics),
      clock_(clock),
      on_failed_(std::move(on_failed)),
      fenced_(api, fence(elector)),
      waiting_(clock) {}

Leadership::~Leadership() {
  stop();
}

void Leadership::start() {
  duties_.emplace(fenced_, clock_, duties_options(options_, elector_));
  started_ = true;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Leadership::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  if (controller_) controller_->stop();
}

Status Leadership::ready() const {
  if (!started_) return {};
  LOCKSTEP_CHECK_OK(waiting_.status());
  const auto* controller = leading_.load();
  if (controller == nullptr || !controller->synced()) {
    return fail(ErrorCode::kUnavailable, "the caches are not filled yet");
  }
  if (!kept_) return fail(ErrorCode::kUnavailable, "the coordinator's endpoint is not published yet");
  return {};
}

bool Leadership::healthy() const {
  const auto* controller = leading_.load();
  return controller == nullptr || controller->healthy();
}

void Leadership::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable wake;
  const std::stop_callback on_stop(stop, [&] {
    const std::lock_guard guard(mutex);
    wake.notify_all();
  });
  Backoff backoff(kRetry);
  while (!stop.stop_requested()) {
    Duration pause = kLookEvery;
    if (const Status done = pass()) {
      kept_ = true;
      waiting_.over();
      backoff.reset();
    } else if (failed_) {
      on_failed_(*failed_);
      return;
    } else {
      // Both are harmless: the object changed between the read and the write, or a renewal is late.
      const auto code = done.error().code;
      if (code != ErrorCode::kConflict && code != ErrorCode::kCancelled) waiting_.because(done.error().message);
      pause = backoff.next();
    }
    std::unique_lock lock(mutex);
    const auto until = clock_.now() + pause;
    while (!stop.stop_requested() && clock_.now() < until) clock_.wait_until(lock, wake, until);
  }
}

Status Leadership::pass() {
  std::optional<int> port;
  if (controller_) {
    const auto address = controller_->coordinator().address();
    port = std::stoi(address.substr(address.rfind(':') + 1));
  }
  const Status kept = duties_->reconcile(port);
  if (duties_->term() == 0 || duties_->address().empty()) return kept;
  if (elector_ != nullptr) elector_->raise_term(duties_->term());
  if (!controller_) {
    LOCKSTEP_CHECK_OK(kept);
    LOCKSTEP_CHECK_OK(start_controller());
    return pass();  // publishes the endpoint: its port is known from here on
  }
  LOCKSTEP_CHECK_OK(follow_duties());
  return kept;
}

Result<job::JobPlacementOptions> Leadership::placement_options() {
  LOCKSTEP_TRY(std::string obstacle, job::placement_obstacle(api_));
  if (!obstacle.empty() && options_.placement_backend != job::DefaultBackend::kNone) {
    log::warn("this operator chooses no nodes", {{"why", obstacle}});
  }
  return job::JobPlacementOptions{.backend = options_.placement_backend, .unavailable = std::move(obstacle)};
}

Status Leadership::start_controller() {
  // Before anything is bound: a missing object may still appear.
  LOCKSTEP_CHECK_OK(job::check_access(api_, options_.watch_namespace));
  LOCKSTEP_TRY(const auto placement, placement_options());
  const auto& authority = *duties_->authority();
  LOCKSTEP_TRY(serving_, rendezvous::issue_serving_certificate(authority.current));
  job::JobControllerOptions controller;
  controller.watch_namespace = options_.watch_namespace;
  controller.agent_image = options_.agent_image;
  controller.topology = options_.topology;
  controller.sick_signs = options_.sick_signs;
  controller.leave_signs = options_.leave_signs;
  controller.dead_signs = options_.dead_signs;
  controller.leave_unhealthy_devices = options_.leave_unhealthy_devices;
  controller.placement = placement;
  controller.workers = options_.workers;
  controller.instance = kube::make_leader_identity();
  controller.may_write = fence(elector_);
  controller.coordinator_ca_pem = authority.trusted_pem();
  controller.coordinator.port = options_.coordinator_port;
  controller.coordinator.certificate_pem = serving_.certificate_pem;
  controller.coordinator.private_key_pem = serving_.private_key_pem;
  controller.coordinator.term = duties_->term();
  controller.coordinator.leads = controller.may_write;
  controller.advertise_address = duties_->address();
  auto started = job::start_job_controller(controller, api_, metrics_, clock_);
  if (!started) {
    failed_ = started.error();
    return *failed_;
  }
  controller_ = std::move(*started);
  followed_ = authority;
  followed_address_ = duties_->address();
  leading_ = controller_.get();
  log::info("leading", {{"advertise", controller_->advertise_address()}, {"term", std::to_string(duties_->term())}});
  return {};
}

// New pods get the address and the authorities as of now; the coordinator serves with the current one.
Status Leadership::follow_duties() {
  const auto& authority = *duties_->authority();
  const bool same_trust = followed_->current == authority.current && followed_->next == authority.next;
  if (same_trust && followed_address_ == duties_->address()) return {};
  if (followed_->current != authority.current) {
    LOCKSTEP_TRY(serving_, rendezvous::issue_serving_certificate(authority.current));
  }
  LOCKSTEP_CHECK_OK(controller_->change_access(duties_->address(), authority.trusted_pem(), serving_));
  followed_ = authority;
  followed_address_ = duties_->address();
  return {};
}

}  // namespace lockstep
