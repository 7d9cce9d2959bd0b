#include "operator/job/placement_access.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/operator/kube/fake_api.h"

namespace lockstep::job::placement_access_test {
namespace {

// Refuses lists by kind.
class GuardedApi final : public kube::testing::FakeApi {
 public:
  std::map<std::string, ErrorCode> refused;
  std::vector<std::string> asked;

  Result<kube::ListPage> list(const kube::Resource& resource, const kube::ListOptions& options) override {
    EXPECT_EQ(options.name_space, "");
    EXPECT_EQ(options.limit, 1);
    asked.push_back(resource.plural);
    const auto found = refused.find(resource.plural);
    if (found != refused.end()) return fail(found->second, "the server says no");
    return kube::ListPage{};
  }
};

TEST(PlacementAccess, asks_for_nodes_and_pods_of_all_namespaces) {
  GuardedApi api;
  const auto obstacle = placement_obstacle(api);
  ASSERT_TRUE(obstacle) << obstacle.error().message;
  EXPECT_EQ(*obstacle, "");
  EXPECT_EQ(api.asked, (std::vector<std::string>{"nodes", "pods"}));
}

TEST(PlacementAccess, names_the_rule_that_is_missing) {
  const struct {
    std::vector<std::string> refused;
    const char* sentence;
  } cases[] = {
      {{"pods"},
       "the operator may not list pods of all namespaces: a ClusterRole of it needs the rule {apiGroups: [\"\"], "
       "resources: [pods], verbs: [list, watch]}"},
      {{"nodes"},
       "the operator may not list nodes: a ClusterRole of it needs the rule {apiGroups: [\"\"], resources: [nodes], "
       "verbs: [list, watch]}"},
      {{"nodes", "pods"},
       "the operator may not list nodes and pods of all namespaces: a ClusterRole of it needs the rule {apiGroups: "
       "[\"\"], resources: [nodes, pods], verbs: [list, watch]}"},
  };
  for (const auto& one : cases) {
    GuardedApi api;
    for (const std::string& resource : one.refused) api.refused[resource] = ErrorCode::kForbidden;
    const auto obstacle = placement_obstacle(api);
    ASSERT_TRUE(obstacle) << obstacle.error().message;
    EXPECT_EQ(*obstacle, one.sentence);
  }
}

TEST(PlacementAccess, another_error_says_nothing_about_permissions) {
  for (const ErrorCode code : {ErrorCode::kUnavailable, ErrorCode::kUnauthorized, ErrorCode::kDeadlineExceeded}) {
    for (const char* resource : {"nodes", "pods"}) {
      GuardedApi api;
      api.refused = {{"nodes", ErrorCode::kForbidden}};
      api.refused[resource] = code;
      const auto obstacle = placement_obstacle(api);
      ASSERT_FALSE(obstacle) << *obstacle;
      EXPECT_EQ(obstacle.error().code, code);
      EXPECT_EQ(obstacle.error().message, std::string("listing ") + resource + ": the server says no");
    }
  }
}

}  // namespace
}  // namespace lockstep::job::placement_access_test
