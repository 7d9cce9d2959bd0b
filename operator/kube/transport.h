// One HTTP exchange with an API server as a seam: bytes in, bytes out. HttpApi gives the bytes their meaning; the
// implementations (cpprest_transport.h, http2_transport.h) handle connections, TLS and proxies.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "operator/base/clock.h"
#include "operator/base/result.h"

namespace lockstep::kube {

// Requests of different lanes never wait for each other's connections. The operator renews a lease and writes a status
// while it creates thousands of pods. A watch that is silent for a minute delays no other request.
enum class Lane { kCall, kLease, kWatch, kBulk };
inline constexpr std::size_t kLanes = 4;

struct Request {
  std::string method = "GET";
  std::string target;        // path and query, percent-encoded: "/api/v1/pods?limit=500"
  std::string body;          // empty: none
  std::string content_type;  // of the body
  std::string accept = "application/json, */*";
  std::string authorization;  // "Bearer ..."; empty: none
  Lane lane = Lane::kCall;
  Duration deadline = std::chrono::seconds(10);        // call(): of everything; stream(): until the headers arrive
  Duration idle_deadline = std::chrono::seconds(120);  // stream(): longest silence between two pieces of the body
  std::size_t max_body = std::size_t{256} << 20;       // call(): a longer answer is kExhausted
};

struct Response {
  int status = 0;
  std::string body;                  // stream(): only if the status is not 2xx
  double retry_after_seconds = 0.0;  // 0: the server did not say
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Sends the request and returns the whole answer, whatever its status. Blocks. A request with a body is sent again
  // only if the server has said that it did not look at it. Failures: kUnavailable (no answer, or the connection broke;
  // the server may or may not have acted), kDeadlineExceeded, kExhausted, kInvalid (the request cannot be sent). Any
  // thread of this process.
  virtual Result<Response> call(const Request& request) = 0;

  // Like call(), but hands the body of a 2xx answer to `on_data` piece by piece, on the calling thread. While it runs,
  // some 128 KiB more are read from the network at most, so a slow consumer slows the server down. Success: the
  // server ended the answer, or `on_data` returned false. kCancelled: `stop` was requested, which ends the exchange at
  // once; kDeadlineExceeded: headers or data did not arrive.
  virtual Result<Response> stream(const Request& request, const std::function<bool(std::string_view)>& on_data,
                                  std::stop_token stop) = 0;
};

}  // namespace lockstep::kube
