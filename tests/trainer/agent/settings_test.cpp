#include "trainer/agent/settings.h"

#include <gtest/gtest.h>

namespace lockstep::trainer::agent {
namespace {

std::vector<std::string> complete() {
  return {"LOCKSTEP_COORDINATOR=10.0.0.1:7077",
          "LOCKSTEP_COORDINATOR_CA=pem",
          "LOCKSTEP_NAMESPACE=ns",
          "LOCKSTEP_POD_NAME=a-0",
          "LOCKSTEP_POD_UID=u",
          "LOCKSTEP_POD_IP=10.0.0.2",
          "LOCKSTEP_SLOT=3",
          "LOCKSTEP_INCARNATION=2"};
}

TEST(Settings, a_complete_environment_is_read) {
  const auto settings = read_settings(complete());
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->coordinator, "10.0.0.1:7077");
  EXPECT_EQ(settings->member.slot, 3);
  EXPECT_EQ(settings->member.incarnation, 2);
  EXPECT_EQ(settings->stop_grace, std::chrono::seconds(25));
  EXPECT_FALSE(settings->end_with_parent);
  EXPECT_NE(settings->member.session, read_settings(complete())->member.session);
}

TEST(Settings, each_missing_variable_is_named) {
  for (std::size_t i = 0; i < complete().size(); ++i) {
    std::vector<std::string> environment = complete();
    const std::string name = environment[i].substr(0, environment[i].find('='));
    environment.erase(environment.begin() + static_cast<long>(i));
    const auto settings = read_settings(environment);
    ASSERT_FALSE(settings) << name;
    EXPECT_EQ(settings.error().message.find(name), 0U) << settings.error().message;
  }
}

TEST(Settings, wrong_values_are_named) {
  for (const char* wrong : {"LOCKSTEP_SLOT=x", "LOCKSTEP_SLOT=-1", "LOCKSTEP_INCARNATION=1.5", "LOCKSTEP_POD_IP=host",
                            "LOCKSTEP_STOP_GRACE_SECONDS=soon"}) {
    std::vector<std::string> environment = complete();
    environment.emplace_back(wrong);
    EXPECT_FALSE(read_settings(environment)) << wrong;
  }
}

}  // namespace
}  // namespace lockstep::trainer::agent
