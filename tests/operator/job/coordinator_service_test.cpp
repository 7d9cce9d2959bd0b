// The fixed points of the coordinator: authority, Service, EndpointSlice.
#include "operator/job/coordinator_service.h"

#include <gtest/gtest.h>

#include "operator/local/memory_api.h"

namespace lockstep::job {
namespace {

using kube::Json;

constexpr const char* kNamespace = "lockstep-system";

void make_service(local::MemoryApi& api, const std::string& ip) {
  const Json service{{"apiVersion", "v1"},
                     {"kind", "Service"},
                     {"metadata", {{"name", kCoordinatorService}, {"namespace", kNamespace}}},
                     {"spec", {{"clusterIP", ip}, {"ports", Json::array({{{"port", 7077}}})}}}};
  ASSERT_TRUE(api.create(kube::kServices, kNamespace, service));
}

TEST(CoordinatorService, an_authority_is_made_once) {
  local::MemoryApi api;
  const auto made = load_or_make_authority(api, kNamespace);
  ASSERT_TRUE(made) << made.error().message;
  const auto secret = api.get(kube::kSecrets, kNamespace, kAuthoritySecret);
  ASSERT_TRUE(secret);
  EXPECT_EQ((*secret)["stringData"]["tls.crt"], made->certificate_pem);
}

TEST(CoordinatorService, an_authority_that_is_there_is_used) {
  local::MemoryApi api;
  const Json secret{{"apiVersion", "v1"},
                    {"kind", "Secret"},
                    {"metadata", {{"name", kAuthoritySecret}, {"namespace", kNamespace}}},
                    {"data", {{"tls.crt", "Y2VydA=="}, {"tls.key", "a2V5IQ=="}}}};
  ASSERT_TRUE(api.create(kube::kSecrets, kNamespace, secret));
  const auto read = load_or_make_authority(api, kNamespace);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->certificate_pem, "cert");
  EXPECT_EQ(read->private_key_pem, "key!");
}

TEST(CoordinatorService, a_damaged_authority_is_named) {
  for (const char* damaged : {"", "%%%"}) {
    local::MemoryApi api;
    const Json secret{{"apiVersion", "v1"},
                      {"kind", "Secret"},
                      {"metadata", {{"name", kAuthoritySecret}, {"namespace", kNamespace}}},
                      {"data", {{"tls.crt", damaged}}}};
    ASSERT_TRUE(api.create(kube::kSecrets, kNamespace, secret));
    const auto read = load_or_make_authority(api, kNamespace);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(read.error().message.find(kAuthoritySecret), std::string::npos);
  }
}

TEST(CoordinatorService, the_address_is_that_of_the_service) {
  local::MemoryApi api;
  EXPECT_EQ(service_address(api, kNamespace).error().code, ErrorCode::kNotFound);
  make_service(api, "10.96.0.7");
  EXPECT_EQ(service_address(api, kNamespace).value_or(""), "10.96.0.7:7077");
}

TEST(CoordinatorService, the_endpoint_follows_the_leader_and_is_written_only_when_it_moves) {
  local::MemoryApi api;
  make_service(api, "10.96.0.7");
  ASSERT_TRUE(publish_endpoint(api, kNamespace, "10.244.0.5", 7077));
  const auto version = api.version();
  ASSERT_TRUE(publish_endpoint(api, kNamespace, "10.244.0.5", 7077));
  EXPECT_EQ(api.version(), version);
  ASSERT_TRUE(publish_endpoint(api, kNamespace, "10.244.1.9", 7077));
  const auto slice = api.get(kube::kEndpointSlices, kNamespace, kCoordinatorService);
  ASSERT_TRUE(slice);
  EXPECT_EQ((*slice)["endpoints"][0]["addresses"][0], "10.244.1.9");
  EXPECT_EQ((*slice)["metadata"]["labels"]["kubernetes.io/service-name"], kCoordinatorService);
}

}  // namespace
}  // namespace lockstep::job
