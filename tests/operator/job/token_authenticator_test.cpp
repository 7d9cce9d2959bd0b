// Whose tokens are let in, against the TokenReview of the in-memory API server.
#include "operator/job/token_authenticator.h"

#include <gtest/gtest.h>

#include "operator/local/memory_api.h"

namespace lockstep::job::token_authenticator_test {
namespace {

class TokenAuthenticatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const kube::Json pod{{"apiVersion", "v1"},
                         {"kind", "Pod"},
                         {"metadata", {{"name", "p"}, {"namespace", "default"}}},
                         {"spec", kube::Json::object()}};
    const auto created = api_.create(kube::kPods, "default", pod);
    ASSERT_TRUE(created);
    uid_ = (*created)["metadata"]["uid"];
    token_ = api_.issue_token({"default", "p", uid_});
  }
  local::MemoryApi api_;
  TokenAuthenticator authenticator_{api_};
  std::string uid_, token_;
};

TEST_F(TokenAuthenticatorTest, the_pod_itself_is_let_in) {
  const auto status = authenticator_.check(token_, "default", "p", uid_);
  EXPECT_TRUE(status) << status.error().message;
}

TEST_F(TokenAuthenticatorTest, a_pod_that_claims_to_be_another_is_refused) {
  EXPECT_EQ(authenticator_.check(token_, "default", "q", uid_).error().code, ErrorCode::kUnauthorized);
  EXPECT_EQ(authenticator_.check(token_, "default", "p", "other").error().code, ErrorCode::kUnauthorized);
  EXPECT_EQ(authenticator_.check(token_, "other", "p", uid_).error().code, ErrorCode::kUnauthorized);
  EXPECT_EQ(authenticator_.check("made up", "default", "p", uid_).error().code, ErrorCode::kUnauthorized);
  EXPECT_EQ(authenticator_.check("", "default", "p", uid_).error().code, ErrorCode::kUnauthorized);
}

TEST_F(TokenAuthenticatorTest, a_token_ends_with_its_pod) {
  ASSERT_TRUE(api_.remove(kube::kPods, "default", "p", {.grace_period_seconds = 0}));
  EXPECT_FALSE(authenticator_.check(token_, "default", "p", uid_));
}

}  // namespace
}  // namespace lockstep::job::token_authenticator_test
