#include "operator/job/leader_duties.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "operator/api/object.h"
#include "operator/base/log.h"
#include "operator/job/children.h"

namespace lockstep::job {
namespace {

using api::Json;

Json endpoint_slice(const std::string& name_space, const std::string& service_uid, const std::string& ip, int port) {
  const Json owner{{"apiVersion", "v1"}, {"kind", "Service"}, {"name", kCoordinatorService}, {"uid", service_uid}};
  return {{"apiVersion", kube::kEndpointSlices.api_version()},
          {"kind", kube::kEndpointSlices.kind},
          {"metadata",
           {{"name", kCoordinatorService},
            {"namespace", name_space},
            {"labels",
             {{"kubernetes.io/service-name", kCoordinatorService},
              {"endpointslice.kubernetes.io/managed-by", "lockstep-operator"}}},
            {"ownerReferences", Json::array({owner})}}},
          {"addressType", ip.find(':') == std::string::npos ? "IPv4" : "IPv6"},
          {"endpoints", Json::array({{{"addresses", Json::array({ip})}, {"conditions", {{"ready", true}}}}})},
          {"ports", Json::array({{{"name", "coordinator"}, {"protocol", "TCP"}, {"port", port}}})}};
}

Json look(const Json& object, const char* pointer) {
  const Json::json_pointer path(pointer);
  return object.contains(path) ? object.at(path) : Json();
}

// Whether traffic goes where `wanted` says; what others added is theirs.
bool says_the_same(const Json& stored, const Json& wanted) {
  for (const char* path : {"/metadata/labels/kubernetes.io~1service-name", "/metadata/ownerReferences/0/uid",
                           "/addressType", "/endpoints/0/addresses", "/endpoints/0/conditions/ready", "/ports/0/port",
                           "/ports/0/protocol", "/ports/0/name"}) {
    if (look(stored, path) != look(wanted, path)) return false;
  }
  return look(stored, "/endpoints").size() == 1 && look(stored, "/ports").size() == 1;
}

Result<std::string> address_of(const Json& service) {
  const Json ip = look(service, "/spec/clusterIP"), port = look(service, "/spec/ports/0/port");
  if (!ip.is_string() || ip == "" || ip == "None" || !port.is_number_integer()) {
    return fail(ErrorCode::kInvalid, std::string("Service ") + kCoordinatorService +
                                         " has no cluster IP or no port; agents need both to reach the coordinator");
  }
  const auto text = ip.get<std::string>();
  return (text.find(':') == std::string::npos ? text : "[" + text + "]") + ":" + std::to_string(port.get<int>());
}

// The Service as its owner made it, without what the API server added.
Json as_applied(const Json& service, bool same_address) {
  Json metadata = Json::object(), spec = Json::object();
  for (const char* key : {"name", "namespace", "labels", "annotations", "ownerReferences"}) {
    if (const Json value = look(service, (std::string("/metadata/") + key).c_str()); !value.is_null())
      metadata[key] = value;
  }
  for (const char* key : {"type", "ipFamilies", "ipFamilyPolicy"}) {
    if (const Json value = look(service, (std::string("/spec/") + key).c_str()); !value.is_null()) spec[key] = value;
  }
  for (const char* key : {"clusterIP", "clusterIPs"}) {
    const Json value = look(service, (std::string("/spec/") + key).c_str());
    if (same_address && !value.is_null()) spec[key] = value;
  }
  spec["ports"] = Json::array();
  for (const Json& port : look(service, "/spec/ports")) {
    Json kept = Json::object();
    for (const char* key : {"name", "port", "targetPort", "protocol"}) {
      if (port.contains(key)) kept[key] = port[key];
    }
    spec["ports"].push_back(std::move(kept));
  }
  return {{"apiVersion", "v1"}, {"kind", "Service"}, {"metadata", std::move(metadata)}, {"spec", std::move(spec)}};
}

Result<std::optional<Json>> find_object(kube::Api& api, const kube::Resource& resource, const std::string& name_space,
                                        const std::string& name) {
  auto found = api.get(resource, name_space, name);
  if (found) return std::optional(std::move(*found));
  if (found.error().code == ErrorCode::kNotFound) return std::optional<Json>();
  return found.error().in("reading " + resource.kind + " " + name_space + "/" + name);
}

}  // namespace

LeaderDuties::LeaderDuties(kube::Api& api, Clock& clock, LeaderDutiesOptions options)
    : api_(api), clock_(clock), options_(std::move(options)), address_(options_.advertise_address) {}

Status LeaderDuties::reconcile(std::optional<int> port) {
  const Status authority = keep_authority();
  Status service, endpoint;
  if (options_.advertise_address.empty()) {
    service = keep_service();
    if (service && port) endpoint = keep_endpoint(*port);
  }
  if (!authority) return authority;
  return service ? endpoint : service;
}

Result<bool> LeaderDuties::everyone_trusts_next() {
  if (clock_.now() - rotating_since_ < options_.rotation_settles) return false;
  const auto names = rendezvous::fingerprints(held_->next->certificate_pem);
  if (names.empty()) return false;
  kube::ListOptions ignorant;
  ignorant.name_space = options_.watch_namespace;
  ignorant.label_selector = std::string(api::kLabelJobUid) + ",!" + trust_label(names.front());
  ignorant.field_selector = "status.phase!=Succeeded,status.phase!=Failed";
  ignorant.limit = 1;
  auto page = api_.list(kube::kPods, ignorant);
  if (!page) return page.error().in("looking for pods that trust only the old authority");
  return page->items.empty();
}

Status LeaderDuties::keep_authority() {
  LOCKSTEP_TRY(const auto secret, find_object(api_, kube::kSecrets, options_.name_space, kAuthoritySecret));
  AuthorityView view;
  if (secret) {
    auto stored = parse_authority(*secret);
    if (!stored && !held_) return stored.error();  // nothing to restore it from
    if (stored) view.stored = std::move(*stored);
  }
  view.held = held_;
  view.claimed = term_;
  view.lease_term = options_.lease_term;
  view.now = clock_.wall_now();
  view.rotate_before = options_.rotate_before;
  if (held_ && held_->next) {
    LOCKSTEP_TRY(view.everyone_trusts_next, everyone_trusts_next());
  }
  LOCKSTEP_TRY(const auto wanted, decide_authority(view, [] { return rendezvous::make_authority(); }));
  if (view.stored != wanted) {
    const Json object = authority_secret(options_.name_space, wanted, secret);
    const auto written = secret ? api_.replace(kube::kSecrets, options_.name_space, kAuthoritySecret, object)
                                : api_.create(kube::kSecrets, options_.name_space, object);
    if (!written) {
      return written.error().in("writing Secret " + options_.name_space + "/" + kAuthoritySecret);
    }
    log::info("the authority's Secret is written",
              {{"term", std::to_string(wanted.term)}, {"rotating", wanted.next ? "yes" : "no"}});
  }
  if (wanted.next && (!held_ || held_->next != wanted.next)) rotating_since_ = clock_.now();
  if (held_ && held_->current != wanted.current) log::info("the authority has been replaced");
  if (term_ == 0) term_ = wanted.term;
  held_ = wanted;
  return {};
}

Status LeaderDuties::restore_service() {
  const auto now = clock_.now();
  const std::string name = options_.name_space + "/" + kCoordinatorService;
  if (!service_) {
    return fail(ErrorCode::kNotFound,
                "Service " + name + " does not exist; install the chart, or apply manifests/install.yaml");
  }
  if (!service_gone_since_) service_gone_since_ = now;
  if (now - *service_gone_since_ < options_.service_returns) {
    return fail(ErrorCode::kNotFound, "Service " + name + " was deleted; it is put back in a moment");
  }
  auto made = api_.create(kube::kServices, options_.name_space, as_applied(*service_, true));
  if (!made && made.error().code == ErrorCode::kInvalid) {  // its address has been given away
    made = api_.create(kube::kServices, options_.name_space, as_applied(*service_, false));
    if (made) log::error("the coordinator's address has changed; pods that run cannot reconnect", {{"service", name}});
  }
  if (!made) return made.error().in("putting back Service " + name + " that was deleted");
  log::warn("the coordinator's Service was deleted and is put back", {{"service", name}});
  service_ = std::move(*made);
  return {};
}

Status LeaderDuties::keep_service() {
  LOCKSTEP_TRY(auto service, find_object(api_, kube::kServices, options_.name_space, kCoordinatorService));
  if (service) {
    service_ = std::move(service);
  } else {
    LOCKSTEP_CHECK_OK(restore_service());
  }
  service_gone_since_.reset();
  LOCKSTEP_TRY(auto address, address_of(*service_));
  if (!address_.empty() && address != address_) {
    log::warn("the coordinator's address has changed; new pods get it", {{"before", address_}, {"now", address}});
  }
  address_ = std::move(address);
  return {};
}

Status LeaderDuties::keep_endpoint(int port) {
  const Json uid = look(*service_, "/metadata/uid");
  Json wanted =
      endpoint_slice(options_.name_space, uid.is_string() ? uid.get<std::string>() : "", options_.pod_ip, port);
  LOCKSTEP_TRY(const auto stored, find_object(api_, kube::kEndpointSlices, options_.name_space, kCoordinatorService));
  if (stored && says_the_same(*stored, wanted)) return {};
  if (stored) wanted["metadata"]["resourceVersion"] = look(*stored, "/metadata/resourceVersion");
  const auto written = stored ? api_.replace(kube::kEndpointSlices, options_.name_space, kCoordinatorService, wanted)
                              : api_.create(kube::kEndpointSlices, options_.name_space, wanted);
  if (!written) {
    return written.error().in("writing EndpointSlice " + options_.name_space + "/" + kCoordinatorService);
  }
  log::info("the coordinator's endpoint is published", {{"ip", options_.pod_ip}, {"port", std::to_string(port)}});
  return {};
}

}  // namespace lockstep::job
