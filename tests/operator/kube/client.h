// The real client with short deadlines, for tests against a peer that plays given bytes.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "operator/base/metrics.h"
#include "operator/kube/http_api.h"

namespace lockstep::kube::testing {

inline Environment no_environment() {
  return [](const std::string&) { return std::nullopt; };
}

inline ClusterAccess access_to(const std::string& url, IdentityFiles identity = {}) {
  ClusterAccess access;
  access.server = url;
  access.identity = file_identity(std::move(identity), SystemClock::instance());
  return access;
}

// An Api with short deadlines; its metrics.
struct Client {
  explicit Client(const ClusterAccess& access, HttpApiOptions options = quick()) {
    auto made = make_http_api(access, no_environment(), SystemClock::instance(), metrics, options);
    EXPECT_TRUE(made) << made.error().message;
    if (made) api = std::move(*made);
  }
  static HttpApiOptions quick() {
    HttpApiOptions options;
    options.call_deadline = std::chrono::seconds(5);
    options.lease_deadline = std::chrono::seconds(5);
    options.watch_idle_deadline = std::chrono::milliseconds(300);
    return options;
  }
  MetricsRegistry metrics;
  std::unique_ptr<Api> api;
};

}  // namespace lockstep::kube::testing
