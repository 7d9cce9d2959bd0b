#include "operator/job/token_authenticator.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace lockstep::job {
namespace {

using Json = nlohmann::json;

constexpr const char* kPodName = "authentication.kubernetes.io/pod-name";
constexpr const char* kPodUid = "authentication.kubernetes.io/pod-uid";

const Json& at(const Json& object, const char* key) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

bool contains(const Json& list, const std::string& text) {
  return list.is_array() && std::find(list.begin(), list.end(), Json(text)) != list.end();
}

}  // namespace

Status TokenAuthenticator::check(const std::string& token, const std::string& name_space, const std::string& pod_name,
                                 const std::string& pod_uid) {
  const Json review{{"apiVersion", kube::kTokenReviews.api_version()},
                    {"kind", kube::kTokenReviews.kind},
                    {"spec", {{"token", token}, {"audiences", Json::array({rendezvous::kTokenAudience})}}}};
  auto answer = api_.create(kube::kTokenReviews, "", review);
  if (!answer) return answer.error().in("checking the token of pod " + pod_name);
  const Json& status = at(*answer, "status");
  const Json& user = at(status, "user");
  const Json& extra = at(user, "extra");
  const Json& account = at(user, "username");
  const std::string prefix = "system:serviceaccount:" + name_space + ":";
  if (at(status, "authenticated") != Json(true) || !contains(at(status, "audiences"), rendezvous::kTokenAudience)) {
    return fail(ErrorCode::kUnauthorized, "the token of pod " + pod_name + " is not valid for audience lockstep");
  }
  if (!account.is_string() || !account.get_ref<const std::string&>().starts_with(prefix) ||
      !contains(at(extra, kPodName), pod_name) || !contains(at(extra, kPodUid), pod_uid)) {
    return fail(ErrorCode::kUnauthorized, "the token was not issued to pod " + name_space + "/" + pod_name);
  }
  return {};
}

}  // namespace lockstep::job
