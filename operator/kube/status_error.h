// From an API server's refusal to an Error: metav1.Status, in the server's own words.
#pragma once

#include <string>
#include <string_view>

#include "operator/base/result.h"
#include "operator/kube/api.h"

namespace lockstep::kube {

// `http_status` is not 2xx; `body` is a Status object, or any answer of a proxy. The message is the server's sentence,
// with a known remedy (for a kind that the server does not know, or refused credentials).
Error error_from_answer(int http_status, const std::string& body, double retry_after_seconds, const Resource& resource);

// The same for a Status object inside a watch ("type": "ERROR").
Error error_from_status(const Json& status, double retry_after_seconds, const Resource& resource);

// The pause of a Retry-After header, at most 300 s; 0 for a date, and for what is no number.
double seconds_of_retry_after(std::string_view value);

}  // namespace lockstep::kube
