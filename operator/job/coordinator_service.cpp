#include "operator/job/coordinator_service.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "operator/api/object.h"

namespace lockstep::job {
namespace {

using api::Json;
using rendezvous::KeyPair;

constexpr const char* kCertificate = "tls.crt";
constexpr const char* kKey = "tls.key";
constexpr int kTries = 3;  // against others that write at the same time

std::optional<std::string> from_base64(const std::string& text) {
  std::string bytes;
  unsigned buffer = 0;
  int bits = 0;
  for (const char c : text) {
    unsigned digit = 0;
    if (c >= 'A' && c <= 'Z') {
      digit = static_cast<unsigned>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      digit = static_cast<unsigned>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0') + 52;
    } else if (c == '+') {
      digit = 62;
    } else if (c == '/') {
      digit = 63;
    } else if (c == '=') {
      break;
    } else {
      return std::nullopt;
    }
    buffer = (buffer << 6) | digit;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes += static_cast<char>((buffer >> bits) & 0xff);
    }
  }
  return bytes;
}

Result<std::string> secret_text(const Json& secret, const char* key) {
  const auto pointer = Json::json_pointer("/data") / std::string(key);
  const Json value = secret.contains(pointer) ? secret.at(pointer) : Json();
  auto text = value.is_string() ? from_base64(value.get<std::string>()) : std::nullopt;
  if (!text || text->empty()) {
    return fail(ErrorCode::kCorrupt, std::string("Secret ") + kAuthoritySecret + " has no " + key +
                                         "; delete it and start again to have a new authority made");
  }
  return *text;
}

Json authority_secret(const std::string& name_space, const KeyPair& authority) {
  return {
      {"apiVersion", "v1"},
      {"kind", "Secret"},
      {"type", "kubernetes.io/tls"},
      {"metadata",
       {{"name", kAuthoritySecret},
        {"namespace", name_space},
        {"labels", {{"app.kubernetes.io/name", "lockstep"}, {"app.kubernetes.io/managed-by", "lockstep-operator"}}}}},
      {"stringData", {{kCertificate, authority.certificate_pem}, {kKey, authority.private_key_pem}}}};
}

Json endpoint_slice(const std::string& name_space, const api::ObjectMeta& service, const std::string& ip, int port) {
  const Json owner{{"apiVersion", "v1"}, {"kind", "Service"}, {"name", service.name}, {"uid", service.uid}};
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

bool says_the_same(const Json& stored, const Json& wanted) {
  try {
    return stored.at("endpoints").at(0).at("addresses") == wanted.at("endpoints").at(0).at("addresses") &&
           stored.at("endpoints").size() == 1 &&
           stored.at("ports").at(0).at("port") == wanted.at("ports").at(0).at("port");
  } catch (const Json::exception&) {
    return false;
  }
}

Result<Json> get_service(kube::Api& api, const std::string& name_space) {
  auto service = api.get(kube::kServices, name_space, kCoordinatorService);
  if (!service) return service.error().in("reading Service " + name_space + "/" + kCoordinatorService);
  return service;
}

}  // namespace

Result<KeyPair> load_or_make_authority(kube::Api& api, const std::string& name_space) {
  const std::string where = "Secret " + name_space + "/" + kAuthoritySecret;
  for (int i = 0; i < kTries; ++i) {
    auto secret = api.get(kube::kSecrets, name_space, kAuthoritySecret);
    if (secret) {
      KeyPair authority;
      LOCKSTEP_TRY(authority.certificate_pem, secret_text(*secret, kCertificate));
      LOCKSTEP_TRY(authority.private_key_pem, secret_text(*secret, kKey));
      return authority;
    }
    if (secret.error().code != ErrorCode::kNotFound) return secret.error().in("reading " + where);
    LOCKSTEP_TRY(const auto authority, rendezvous::make_authority());
    const auto created = api.create(kube::kSecrets, name_space, authority_secret(name_space, authority));
    if (created) return authority;
    if (created.error().code != ErrorCode::kAlreadyExists) return created.error().in("creating " + where);
  }
  return fail(ErrorCode::kConflict, where + " comes and goes; is something else deleting it?");
}

Result<std::string> service_address(kube::Api& api, const std::string& name_space) {
  LOCKSTEP_TRY(const Json service, get_service(api, name_space));
  try {
    const auto ip = service.at("spec").at("clusterIP").get<std::string>();
    const int port = service.at("spec").at("ports").at(0).at("port").get<int>();
    if (ip.empty() || ip == "None") return fail(ErrorCode::kInvalid, "Service lockstep-coordinator has no cluster IP");
    return (ip.find(':') == std::string::npos ? ip : "[" + ip + "]") + ":" + std::to_string(port);
  } catch (const Json::exception&) {
    return fail(ErrorCode::kInvalid, "Service lockstep-coordinator has no cluster IP or no port");
  }
}

Status publish_endpoint(kube::Api& api, const std::string& name_space, const std::string& ip, int port) {
  LOCKSTEP_TRY(const Json service, get_service(api, name_space));
  LOCKSTEP_TRY(const auto meta, api::parse_meta(service));
  const std::string where = "EndpointSlice " + name_space + "/" + kCoordinatorService;
  Json wanted = endpoint_slice(name_space, meta, ip, port);
  Result<Json> written = fail(ErrorCode::kInternal, "not tried");
  for (int i = 0; i < kTries; ++i) {
    auto stored = api.get(kube::kEndpointSlices, name_space, kCoordinatorService);
    if (stored && says_the_same(*stored, wanted)) return {};
    if (!stored && stored.error().code != ErrorCode::kNotFound) return stored.error().in("reading " + where);
    if (stored) {
      LOCKSTEP_TRY(const auto stored_meta, api::parse_meta(*stored));
      wanted["metadata"]["resourceVersion"] = stored_meta.resource_version;
      written = api.replace(kube::kEndpointSlices, name_space, kCoordinatorService, wanted);
    } else {
      wanted["metadata"].erase("resourceVersion");
      written = api.create(kube::kEndpointSlices, name_space, wanted);
    }
    if (written) return {};
    const auto code = written.error().code;
    if (code != ErrorCode::kConflict && code != ErrorCode::kAlreadyExists && code != ErrorCode::kNotFound) break;
  }
  return written.error().in("writing " + where);
}

}  // namespace lockstep::job
