// The fixed points by which agents find and trust whichever operator leads: the certificate authority in a Secret, and
// the Service without a selector whose EndpointSlice the leader points at itself.
#pragma once

#include <string>

#include "operator/base/result.h"
#include "operator/kube/api.h"
#include "operator/rendezvous/coordinator.h"

namespace lockstep::job {

inline constexpr const char* kAuthoritySecret = "lockstep-coordinator-ca";
inline constexpr const char* kCoordinatorService = "lockstep-coordinator";

// The authority of the Secret in `name_space`; makes one where there is none yet. Of several operators that try at once
// one succeeds, and all read that one. kCorrupt when the Secret holds no key pair.
Result<rendezvous::KeyPair> load_or_make_authority(kube::Api& api, const std::string& name_space);

// "ip:port" of the Service, numeric. kNotFound when it does not exist, kInvalid when it has no cluster IP or port.
Result<std::string> service_address(kube::Api& api, const std::string& name_space);

// Points the Service at `ip`:`port`; writes nothing when it does so already. The EndpointSlice belongs to the Service.
Status publish_endpoint(kube::Api& api, const std::string& name_space, const std::string& ip, int port);

}  // namespace lockstep::job
