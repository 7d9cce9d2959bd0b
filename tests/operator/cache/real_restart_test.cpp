// An informer through the sudden death of a real API server. LOCKSTEP_TEST_KUBECONFIG names the cluster, and
// LOCKSTEP_TEST_RESTART_COMMAND a command that ends its API server with SIGKILL, starts it again and returns when it
// is ready.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "operator/cache/informer.h"
#include "operator/kube/http_api.h"
#include "operator/kube/kubeconfig.h"

namespace lockstep::cache {
namespace {

using kube::Json;
using std::chrono::milliseconds;

struct Thing {
  api::ObjectMeta meta;
};

Result<Thing> parse_thing(const Json& object) {
  LOCKSTEP_TRY(auto meta, api::parse_meta(object));
  return Thing{std::move(meta)};
}

// The server is another process, and away for a while: no event says when it is back, so the test polls.
bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 600 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(100));
  return condition();
}

TEST(RealServerRestart, the_cache_is_right_again_after_the_api_server_was_killed) {
  const char* kubeconfig = std::getenv("LOCKSTEP_TEST_KUBECONFIG");
  const char* restart = std::getenv("LOCKSTEP_TEST_RESTART_COMMAND");
  if (kubeconfig == nullptr || restart == nullptr) {
    GTEST_SKIP() << "LOCKSTEP_TEST_KUBECONFIG and LOCKSTEP_TEST_RESTART_COMMAND name no cluster to test against";
  }
  auto& clock = SystemClock::instance();
  MetricsRegistry metrics;
  const auto access = kube::find_access({.kubeconfig = kubeconfig}, kube::process_environment(), clock);
  ASSERT_TRUE(access) << access.error().message;
  auto made = kube::make_http_api(*access, kube::process_environment(), clock, metrics);
  ASSERT_TRUE(made) << made.error().message;
  kube::Api& api = **made;

  const std::string label = fmt::format("restart-{}", getpid());
  const auto name = [&](const std::string& suffix) { return label + "-" + suffix; };
  const auto create = [&](const std::string& suffix) {
    const auto result = api.create(kube::kConfigMaps, "default",
                                   {{"apiVersion", "v1"},
                                    {"kind", "ConfigMap"},
                                    {"metadata", {{"name", name(suffix)}, {"labels", {{"test", label}}}}}});
    return result || result.error().code == ErrorCode::kAlreadyExists;
  };
  Informer<Thing>::Options options;
  options.reflector.name_space = "default";
  options.reflector.label_selector = "test=" + label;
  Informer<Thing> informer(api, clock, metrics, kube::kConfigMaps, &parse_thing, options, {});
  ASSERT_TRUE(create("stays"));
  ASSERT_TRUE(create("goes"));
  informer.start();
  ASSERT_TRUE(eventually([&] { return informer.has_synced() && informer.store().size() == 2; }));

  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(std::system(restart), 0);
  const auto ready = std::chrono::steady_clock::now();
  ASSERT_TRUE(eventually([&] { return create("new"); }));
  ASSERT_TRUE(eventually([&] {
    const auto removed = api.remove(kube::kConfigMaps, "default", name("goes"));
    return removed || removed.error().code == ErrorCode::kNotFound;
  }));
  EXPECT_TRUE(eventually([&] {
    return informer.store().get({"default", name("new")}) && !informer.store().get({"default", name("goes")}) &&
           informer.store().get({"default", name("stays")});
  }));
  const auto right = std::chrono::steady_clock::now();
  fmt::print("down for {} ms, right again {} ms later\n",
             std::chrono::duration_cast<milliseconds>(ready - start).count(),
             std::chrono::duration_cast<milliseconds>(right - ready).count());
  informer.stop();
  for (const char* suffix : {"stays", "new"}) {
    EXPECT_TRUE(api.remove(kube::kConfigMaps, "default", name(suffix)));
  }
}

}  // namespace
}  // namespace lockstep::cache
