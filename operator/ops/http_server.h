// /metrics, /healthz and /readyz for Prometheus and the kubelet.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operator/base/clock.h"
#include "operator/base/result.h"

namespace lockstep::ops {

struct HttpServerOptions {
  std::string address = "0.0.0.0";
  int port = 8080;                                      // 0: any free one
  int most_connections = 64;                            // more are closed at once
  Duration request_deadline = std::chrono::seconds(5);  // for a request to arrive and its answer to leave
};

// The contents of the pages. Called on the server's thread; must not block for long. An Error's message becomes the
// body of a 503.
struct HttpHandlers {
  std::function<std::string()> metrics;  // text exposition format
  // The process is alive: workers and loops make progress. Ignores the API server: its outage is no reason to kill the
  // process.
  std::function<Status()> healthy;
  // Caches are complete; standbys are ready too. An error during shutdown.
  std::function<Status()> ready;
};

// Serves until it is destroyed, which joins its thread.
class HttpServer {
 public:
  // kUnavailable: the address cannot be bound.
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options, HttpHandlers handlers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The port that it listens on.
  int port() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::ops
