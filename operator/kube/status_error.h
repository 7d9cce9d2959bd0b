// What an API server's refusal means: metav1.Status to Error, in the server's own words.
#pragma once

#include <string>

#include "operator/base/result.h"
#include "operator/kube/api.h"

namespace lockstep::kube {

// `http_status` is not 2xx; `body` is a Status object, or whatever a proxy answered. The message is the server's
// sentence, with a way out where we know one (a kind that the server does not know, refused credentials).
Error error_from_answer(int http_status, const std::string& body, double retry_after_seconds, const Resource& resource);

// The same for a Status object inside a watch ("type": "ERROR").
Error error_from_status(const Json& status, double retry_after_seconds, const Resource& resource);

}  // namespace lockstep::kube
