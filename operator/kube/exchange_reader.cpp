#include "operator/kube/exchange_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::kube {
namespace {

constexpr std::size_t kMaxErrorBody = std::size_t{1} << 20;

}  // namespace

ReadExchange read_exchange(Exchange& exchange, const Request& request, const std::string& server, const OnData& on_data,
                           std::stop_token stop, Duration idle) {
  Response response;
  const bool whole = idle == Duration::zero();
  Duration patience = request.deadline;
  auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    switch (exchange.wait(stop, deadline)) {
      case Exchange::Event::kHead:
        response.status = exchange.head().status;
        response.retry_after_seconds = exchange.head().retry_after_seconds;
        break;
      case Exchange::Event::kData:
        if (response.status / 100 == 2) {
          if (!on_data(exchange.data())) return {std::move(response)};
        } else {
          response.body.append(exchange.data(), 0, kMaxErrorBody - std::min(kMaxErrorBody, response.body.size()));
        }
        exchange.take();
        break;
      case Exchange::Event::kEnd:
        if (const auto& failure = exchange.failure()) return {*failure, true};
        return {std::move(response), true};
      case Exchange::Event::kStopped:
        return {fail(ErrorCode::kCancelled, "cancelled")};
      case Exchange::Event::kDeadline:
        return {fail(ErrorCode::kDeadlineExceeded,
                     fmt::format("{} {} {} {} within {:.3g} s", server,
                                 response.status == 0 ? "did not answer" : "stopped sending", request.method,
                                 request.target.substr(0, request.target.find('?')),
                                 std::chrono::duration<double>(patience).count())),
                false, deadline - patience};
    }
    if (!whole && response.status != 0) {
      patience = idle;
      deadline = std::chrono::steady_clock::now() + patience;
    }
  }
}

Result<Response> collect(const Request& request, const std::string& server,
                         const std::function<Result<Response>(const OnData&)>& stream) {
  std::string body;
  bool too_long = false;
  auto response = stream([&](std::string_view piece) {
    too_long = body.size() + piece.size() > request.max_body;
    if (!too_long) body.append(piece);
    return !too_long;
  });
  if (too_long) {
    return fail(ErrorCode::kExhausted, fmt::format("the answer of {} to {} {} is longer than {} MiB", server,
                                                   request.method, request.target, request.max_body >> 20));
  }
  if (response && response->status / 100 == 2) response->body = std::move(body);
  return response;
}

}  // namespace lockstep::kube
