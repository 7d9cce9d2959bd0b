#include "operator/leadership.h"

#include "operator/base/log.h"
#include "operator/job/coordinator_service.h"

namespace lockstep {

Result<std::unique_ptr<job::JobController>> lead(const OperatorOptions& options, kube::Api& api,
                                                 const kube::LeaderElector* elector, MetricsRegistry& metrics,
                                                 Clock& clock) {
  const bool by_service = options.advertise_address.empty();
  if (by_service && options.pod_ip.empty()) {
    return fail(ErrorCode::kInvalid,
                "agents need an address to dial: set POD_IP in a pod, or --coordinator-advertise-address outside of "
                "the cluster");
  }
  job::JobControllerOptions controller;
  controller.watch_namespace = options.watch_namespace;
  controller.agent_image = options.agent_image;
  controller.workers = options.workers;
  controller.instance = kube::make_leader_identity();
  if (elector != nullptr) controller.may_write = [elector] { return elector->is_leader_now(); };

  LOCKSTEP_TRY(const auto authority, job::load_or_make_authority(api, options.name_space));
  LOCKSTEP_TRY(const auto serving, rendezvous::issue_serving_certificate(authority));
  controller.coordinator_ca_pem = authority.certificate_pem;
  controller.coordinator.port = options.coordinator_port;
  controller.coordinator.certificate_pem = serving.certificate_pem;
  controller.coordinator.private_key_pem = serving.private_key_pem;
  if (elector != nullptr) controller.coordinator.term = elector->term();

  controller.advertise_address = options.advertise_address;
  if (by_service) {
    LOCKSTEP_TRY(controller.advertise_address, job::service_address(api, options.name_space));
  }
  LOCKSTEP_TRY(auto started, job::start_job_controller(controller, api, metrics, clock));
  if (by_service) {
    const auto address = started->coordinator().address();
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    LOCKSTEP_CHECK_OK(job::publish_endpoint(api, options.name_space, options.pod_ip, port));
  }
  log::info("leading", {{"advertise", started->advertise_address()}});
  return started;
}

}  // namespace lockstep
