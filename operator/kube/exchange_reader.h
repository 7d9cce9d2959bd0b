// The consumer's side of an Exchange, which is the same for every HTTP library.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "operator/kube/exchange.h"
#include "operator/kube/transport.h"

namespace lockstep::kube {

using OnData = std::function<bool(std::string_view)>;

struct ReadExchange {
  Result<Response> response;
  bool ended = false;                           // the library is done with it
  std::optional<MonotonicTime> silent_since{};  // of kDeadlineExceeded: when the wait began
};

// Takes the parts of the exchange until its end, `stop`, a deadline, or until `on_data` returns false; see
// Transport::stream(). `idle` zero: request.deadline covers everything. `server` is its URL, for messages.
ReadExchange read_exchange(Exchange& exchange, const Request& request, const std::string& server, const OnData& on_data,
                           std::stop_token stop, Duration idle);

// Transport::call() by means of `stream`, which hands the body of an answer to the function that it gets.
Result<Response> collect(const Request& request, const std::string& server,
                         const std::function<Result<Response>(const OnData&)>& stream);

}  // namespace lockstep::kube
