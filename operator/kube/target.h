// The URLs of the Kubernetes API: paths and percent-encoded queries.
#pragma once

#include <string>
#include <string_view>

#include "operator/base/result.h"
#include "operator/kube/api.h"

namespace lockstep::kube {

// A query under construction; empty values are left out.
class Query {
 public:
  Query& add(std::string_view key, std::string_view value);
  Query& add(std::string_view key, int value);
  // "" or "?a=b&c=d".
  std::string text() const { return text_.empty() ? "" : "?" + text_; }

 private:
  std::string text_;
};

// Everything but letters, digits and "-._~" as %XX.
std::string percent_encoded(std::string_view text);

// "/apis/lockstep.dev/v1alpha1/namespaces/default/trainingjobs"; an empty name_space means all of them.
std::string collection_path(const Resource& resource, const std::string& name_space);
// "<collection>/<name>[/<subresource>]". kInvalid: the name, or the namespace of a namespaced kind, is empty.
Result<std::string> object_path(const Resource& resource, const std::string& name_space, const std::string& name,
                                const std::string& subresource = "");

}  // namespace lockstep::kube
