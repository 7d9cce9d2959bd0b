// A leader's duties over an API server in memory: what is missing is made, what is changed is repaired, and a former
// leader changes nothing.
#include "operator/job/leader_duties.h"

#include <gtest/gtest.h>

#include "operator/job/children.h"
#include "operator/job/fenced_api.h"
#include "operator/local/memory_api.h"
#include "tests/operator/job/hooked_api.h"

namespace lockstep::job::leader_duties_test {
namespace {

using kube::Json;
using std::chrono::seconds;

constexpr const char* kNamespace = "lockstep-system";

class LeaderDutiesTest : public ::testing::Test {
 protected:
  void SetUp() override { make_service("10.96.0.7"); }

  void make_service(const std::string& ip) {
    const Json service{
        {"apiVersion", "v1"},
        {"kind", "Service"},
        {"metadata",
         {{"name", kCoordinatorService},
          {"namespace", kNamespace},
          {"labels", {{"app.kubernetes.io/managed-by", "Helm"}}},
          {"annotations", {{"meta.helm.sh/release-name", "lockstep"}}}}},
        {"spec", {{"clusterIP", ip}, {"ports", Json::array({{{"name", "coordinator"}, {"port", 7077}}})}}}};
    ASSERT_TRUE(api.create(kube::kServices, kNamespace, service));
  }
  LeaderDuties duties(std::int64_t lease_term, const std::string& ip, kube::Api* through = nullptr) {
    LeaderDutiesOptions options;
    options.name_space = kNamespace;
    options.lease_term = lease_term;
    options.pod_ip = ip;
    return {through != nullptr ? *through : api, clock, options};
  }
  Json slice() { return api.get(kube::kEndpointSlices, kNamespace, kCoordinatorService).value_or({}); }
  std::string slice_ip() { return slice().value(Json::json_pointer("/endpoints/0/addresses/0"), ""); }
  Json secret() { return api.get(kube::kSecrets, kNamespace, kAuthoritySecret).value_or({}); }
  std::string stored_term() {
    return secret().value(Json::json_pointer("/metadata/annotations") / std::string(kTermAnnotation), "");
  }
  Status remove(const kube::Resource& resource, const char* name) { return api.remove(resource, kNamespace, name); }
  void make_pod(const std::string& name, const std::vector<std::string>& trusts) {
    Json labels{{api::kLabelJobUid, "u"}};
    for (const auto& fingerprint : trusts) labels[trust_label(fingerprint)] = "";
    ASSERT_TRUE(api.create(kube::kPods, "team",
                           {{"apiVersion", "v1"},
                            {"kind", "Pod"},
                            {"metadata", {{"name", name}, {"namespace", "team"}, {"labels", labels}}}}));
  }

  ManualClock clock;
  local::MemoryApi api{clock};
};

TEST_F(LeaderDutiesTest, the_first_pass_makes_everything_and_the_second_writes_nothing) {
  auto leader = duties(1, "10.244.0.5");
  ASSERT_TRUE(leader.reconcile(std::nullopt));
  EXPECT_EQ(leader.term(), 1);
  EXPECT_EQ(leader.address(), "10.96.0.7:7077");
  EXPECT_EQ(slice(), Json());  // nobody listens yet
  ASSERT_TRUE(leader.reconcile(7077));
  EXPECT_EQ(slice_ip(), "10.244.0.5");
  EXPECT_EQ(slice()["metadata"]["labels"]["kubernetes.io/service-name"], kCoordinatorService);
  EXPECT_EQ(parse_authority(secret()).value_or({}), leader.authority());
  const auto version = api.version();
  ASSERT_TRUE(leader.reconcile(7077));
  EXPECT_EQ(api.version(), version);
}

TEST_F(LeaderDutiesTest, a_deleted_or_overwritten_endpoint_is_repaired) {
  auto leader = duties(1, "10.244.0.5");
  ASSERT_TRUE(leader.reconcile(7077));
  const Json good = slice();
  ASSERT_TRUE(remove(kube::kEndpointSlices, kCoordinatorService));
  ASSERT_TRUE(leader.reconcile(7077));
  EXPECT_EQ(slice_ip(), "10.244.0.5");
  const std::vector<std::pair<const char*, Json>> overwrites = {
      {"/endpoints/0/addresses/0", "10.9.9.9"},
      {"/endpoints/0/conditions/ready", false},
      {"/endpoints", Json::array()},
      {"/ports/0/port", 1},
      {"/ports/0/name", "other"},
      {"/metadata/labels/kubernetes.io~1service-name", "other"},
      {"/metadata/ownerReferences/0/uid", "of-another-service"},
  };
  for (const auto& [path, value] : overwrites) {
    Json changed = slice();
    changed[Json::json_pointer(path)] = value;
    ASSERT_TRUE(api.replace(kube::kEndpointSlices, kNamespace, kCoordinatorService, changed)) << path;
    ASSERT_TRUE(leader.reconcile(7077)) << path;
    EXPECT_EQ(slice()[Json::json_pointer(path)], good[Json::json_pointer(path)]) << path;
  }
}

TEST_F(LeaderDutiesTest, a_stalled_former_leader_overwrites_nothing_of_its_successor) {
  bool first_leads = true;
  FencedApi fenced(api, [&] { return first_leads; });
  auto first = duties(1, "10.244.0.5", &fenced);
  ASSERT_TRUE(first.reconcile(7077));
  first_leads = false;  // it stalls; its Lease runs out
  auto second = duties(2, "10.244.1.9");
  ASSERT_TRUE(second.reconcile(7077));
  EXPECT_EQ(slice_ip(), "10.244.1.9");
  const auto version = api.version();
  EXPECT_EQ(first.reconcile(7077).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(api.version(), version);
}

// A process that stands still between the fence and its write.
class StallingApi final : public testing::HookedApi {
 public:
  using HookedApi::HookedApi;
  std::function<void()> meanwhile;  // happens before the next write, once

 private:
  std::optional<Error> before(const Write&) override {
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    return std::nullopt;
  }
};

TEST_F(LeaderDutiesTest, a_write_that_passed_the_fence_too_early_conflicts) {
  StallingApi stalling(api);
  auto former = duties(1, "10.244.0.5", &stalling);
  ASSERT_TRUE(former.reconcile(7077));
  std::int64_t term = 1;
  for (const bool replaces : {true, false}) {
    if (replaces) {
      Json changed = slice();
      changed["endpoints"][0]["addresses"][0] = "10.9.9.9";
      ASSERT_TRUE(api.replace(kube::kEndpointSlices, kNamespace, kCoordinatorService, changed));
    } else {
      ASSERT_TRUE(remove(kube::kEndpointSlices, kCoordinatorService));
    }
    stalling.meanwhile = [&] {
      auto successor = duties(++term, "10.244.1.9");
      ASSERT_TRUE(successor.reconcile(7077));
    };
    EXPECT_FALSE(former.reconcile(7077));
    EXPECT_FALSE(stalling.meanwhile);
    EXPECT_EQ(slice_ip(), "10.244.1.9");
  }
}

TEST_F(LeaderDutiesTest, the_term_survives_the_deletion_of_the_lease_and_of_the_secret) {
  auto first = duties(41, "10.244.0.5");
  ASSERT_TRUE(first.reconcile(7077));
  EXPECT_EQ(stored_term(), "41");
  auto second = duties(1, "10.244.0.6");  // the Lease was deleted: it counts from 1
  ASSERT_TRUE(second.reconcile(7077));
  EXPECT_EQ(second.term(), 42);
  ASSERT_TRUE(remove(kube::kSecrets, kAuthoritySecret));
  ASSERT_TRUE(second.reconcile(7077));
  EXPECT_EQ(stored_term(), "42");
  EXPECT_EQ(parse_authority(secret()).value_or({}), second.authority());
  ASSERT_TRUE(remove(kube::kSecrets, kAuthoritySecret));
  auto third = duties(43, "10.244.0.7");  // the Lease had been raised to 42
  ASSERT_TRUE(third.reconcile(7077));
  EXPECT_EQ(third.term(), 43);
}

TEST_F(LeaderDutiesTest, a_lowered_or_removed_term_is_put_back) {
  auto leader = duties(41, "10.244.0.5");
  ASSERT_TRUE(leader.reconcile(7077));
  for (const char* text : {"3", "x"}) {
    Json changed = secret();
    changed["metadata"]["annotations"][kTermAnnotation] = text;
    ASSERT_TRUE(api.replace(kube::kSecrets, kNamespace, kAuthoritySecret, changed));
    ASSERT_TRUE(leader.reconcile(7077));
    EXPECT_EQ(stored_term(), "41");
  }
}

TEST_F(LeaderDutiesTest, two_leaders_never_claim_the_same_term) {
  std::optional<LeaderDuties> other;
  StallingApi stalling(api);
  stalling.meanwhile = [&] {
    other.emplace(api, clock, LeaderDutiesOptions{.name_space = kNamespace, .lease_term = 1, .pod_ip = "10.244.0.6"});
    ASSERT_TRUE(other->reconcile(std::nullopt));
  };
  auto leader = duties(1, "10.244.0.5", &stalling);
  EXPECT_FALSE(leader.reconcile(std::nullopt));  // the other was between its read and its write
  EXPECT_EQ(leader.term(), 0);
  ASSERT_TRUE(leader.reconcile(std::nullopt));
  EXPECT_EQ(other->term(), 1);
  EXPECT_EQ(leader.term(), 2);
  EXPECT_EQ(leader.authority()->current, other->authority()->current);
}

TEST_F(LeaderDutiesTest, a_recreated_service_moves_new_pods_to_its_address) {
  auto leader = duties(1, "10.244.0.5");
  ASSERT_TRUE(leader.reconcile(7077));
  ASSERT_TRUE(remove(kube::kServices, kCoordinatorService));
  make_service("10.96.0.99");
  ASSERT_TRUE(leader.reconcile(7077));
  EXPECT_EQ(leader.address(), "10.96.0.99:7077");
  const auto service = api.get(kube::kServices, kNamespace, kCoordinatorService);
  EXPECT_EQ(slice()["metadata"]["ownerReferences"][0]["uid"], (*service)["metadata"]["uid"]);
}

TEST_F(LeaderDutiesTest, a_deleted_service_returns_after_seconds_with_its_address_and_owner) {
  auto leader = duties(1, "10.244.0.5");
  ASSERT_TRUE(leader.reconcile(7077));
  ASSERT_TRUE(remove(kube::kServices, kCoordinatorService));
  const auto missing = leader.reconcile(7077);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("was deleted"), std::string::npos);
  EXPECT_EQ(leader.address(), "10.96.0.7:7077");
  clock.advance(seconds(6));
  ASSERT_TRUE(leader.reconcile(7077));
  const auto service = api.get(kube::kServices, kNamespace, kCoordinatorService);
  ASSERT_TRUE(service);
  EXPECT_EQ((*service)["spec"]["clusterIP"], "10.96.0.7");
  EXPECT_EQ((*service)["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm");
  EXPECT_EQ((*service)["metadata"]["annotations"]["meta.helm.sh/release-name"], "lockstep");
  EXPECT_EQ(slice_ip(), "10.244.0.5");
}

TEST_F(LeaderDutiesTest, a_service_that_was_never_there_is_waited_for_by_name) {
  ASSERT_TRUE(remove(kube::kServices, kCoordinatorService));
  auto leader = duties(1, "10.244.0.5");
  const auto missing = leader.reconcile(std::nullopt);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("lockstep-system/lockstep-coordinator does not exist"), std::string::npos);
  EXPECT_EQ(leader.term(), 1);  // the other duties are done
  make_service("10.96.0.7");
  EXPECT_TRUE(leader.reconcile(7077));
}

TEST_F(LeaderDutiesTest, without_a_service_only_the_secret_is_kept) {
  LeaderDuties leader(api, clock, {.name_space = kNamespace, .lease_term = 1, .advertise_address = "192.0.2.7"});
  ASSERT_TRUE(leader.reconcile(7077));
  EXPECT_EQ(leader.address(), "192.0.2.7");
  EXPECT_EQ(slice(), Json());
}

TEST_F(LeaderDutiesTest, the_authority_rotates_once_every_pod_trusts_the_next) {
  auto leader = duties(1, "10.244.0.5");
  ASSERT_TRUE(leader.reconcile(7077));
  const auto old = leader.authority()->current;
  const auto old_name = rendezvous::fingerprints(old.certificate_pem).at(0);
  make_pod("old", {old_name});
  Json asking = secret();
  asking["metadata"]["annotations"][kRotateAnnotation] = "now";
  ASSERT_TRUE(api.replace(kube::kSecrets, kNamespace, kAuthoritySecret, asking));
  ASSERT_TRUE(leader.reconcile(7077));
  ASSERT_TRUE(leader.authority()->next);
  const auto next = *leader.authority()->next;
  EXPECT_EQ(leader.authority()->current, old);
  const auto both = rendezvous::fingerprints(leader.authority()->trusted_pem());
  EXPECT_EQ(both, (std::vector{old_name, rendezvous::fingerprints(next.certificate_pem).at(0)}));
  EXPECT_FALSE(secret()["metadata"]["annotations"].contains(kRotateAnnotation));
  make_pod("new", both);

  clock.advance(seconds(60));
  ASSERT_TRUE(leader.reconcile(7077));
  EXPECT_EQ(leader.authority()->current, old);  // pod "old" knows nothing else
  ASSERT_TRUE(api.remove(kube::kPods, "team", "old", {.grace_period_seconds = 0}));

  auto successor = duties(2, "10.244.1.9");  // it goes on where the leader was
  ASSERT_TRUE(successor.reconcile(7077));
  ASSERT_TRUE(successor.reconcile(7077));
  EXPECT_EQ(successor.authority()->current, old);  // pods of its predecessor may still arrive
  clock.advance(seconds(31));
  ASSERT_TRUE(successor.reconcile(7077));
  EXPECT_EQ(successor.authority()->current, next);
  EXPECT_FALSE(successor.authority()->next);
  EXPECT_EQ(parse_authority(secret()).value_or({}), successor.authority());
}

}  // namespace
}  // namespace lockstep::job::leader_duties_test
