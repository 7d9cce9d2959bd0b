// The HTTP proxy for a server, by the conventions of curl and Go: HTTPS_PROXY, HTTP_PROXY, NO_PROXY.
#pragma once

#include <string>

#include "operator/kube/credentials.h"

namespace lockstep::kube {

struct Proxy {
  std::string url;  // "http://10.0.0.9:3128"; empty: connect directly
  std::string user, password;
};

// `server` is a URL; `configured` is the proxy-url of a kubeconfig, which wins over the environment and ignores
// NO_PROXY. The lower-case variables win over the upper-case ones. NO_PROXY holds names (with their subdomains), IP
// addresses, CIDR blocks, each with an optional port, or "*". kInvalid for a proxy that is not http://.
Result<Proxy> proxy_for(const std::string& server, const std::string& configured, const Environment& environment);

}  // namespace lockstep::kube
