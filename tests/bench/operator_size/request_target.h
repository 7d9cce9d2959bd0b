// The target of a request to an API server, in parts:
// /apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE?QUERY.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "operator/kube/api.h"

namespace lockstep::bench {

struct RequestTarget {
  kube::Resource resource;
  std::string name_space, name, subresource;
  std::map<std::string, std::string> query;

  // "" when it is missing.
  std::string asked(const std::string& key) const;
};

// None for a path of another form.
std::optional<RequestTarget> parse_target(std::string_view target);

}  // namespace lockstep::bench
