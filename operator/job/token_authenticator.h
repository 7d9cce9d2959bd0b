// Asks the API server whether a token is that of the pod which its bearer claims to be (TokenReview).
#pragma once

#include <string>

#include "operator/kube/api.h"
#include "operator/rendezvous/coordinator.h"

namespace lockstep::job {

class TokenAuthenticator final : public rendezvous::MemberAuthenticator {
 public:
  // `api` outlives this.
  explicit TokenAuthenticator(kube::Api& api) : api_(api) {}

  // Success only for a valid token with audience "lockstep" that is bound to this very pod (name, uid and namespace).
  // kUnauthorized when it is not; other errors say that nobody could be asked.
  Status check(const std::string& token, const std::string& name_space, const std::string& pod_name,
               const std::string& pod_uid) override;

 private:
  kube::Api& api_;
};

}  // namespace lockstep::job
