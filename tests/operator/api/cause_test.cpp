#include "operator/api/cause.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "operator/api/schema.h"
#include "operator/api/strategy.h"

namespace lockstep::api::cause_test {
namespace {

TEST(Cause, each_has_a_name_of_its_own_and_is_found_by_it) {
  std::set<std::string_view> names;
  for (const Cause cause : all_causes()) {
    EXPECT_TRUE(names.insert(name_of(cause)).second) << name_of(cause);
    EXPECT_EQ(cause_named(name_of(cause)), cause);
  }
  EXPECT_EQ(cause_named(""), Cause::kNone);
  EXPECT_FALSE(cause_named("NoSuchCause"));
}

TEST(Strategy, each_has_a_name_of_its_own_and_is_found_by_it) {
  std::set<std::string_view> names;
  for (const Strategy strategy : all_strategies()) {
    EXPECT_TRUE(names.insert(name_of(strategy)).second) << name_of(strategy);
    EXPECT_EQ(strategy_named(name_of(strategy)), strategy);
  }
  EXPECT_EQ(strategy_named(""), Strategy::kNone);
  EXPECT_FALSE(strategy_named("NoSuchStrategy"));
}

TEST(Cause, no_word_of_an_agent_stands_for_a_cause_of_the_cluster) {
  for (const Cause cause : all_causes()) {
    EXPECT_FALSE(is_infrastructure(cause_of_agent(name_of(cause)))) << name_of(cause);
  }
  EXPECT_EQ(cause_of_agent("Hang"), Cause::kHang);
  EXPECT_EQ(cause_of_agent("NodeLost"), Cause::kProcessFailed);
  EXPECT_EQ(cause_of_agent(std::string(100'000, 'x')), Cause::kProcessFailed);
}

// A cause that ends a job as a whole is no failure that a rule could match.
TEST(Cause, rules_of_the_crd_are_for_the_causes_of_attempts) {
  const std::set<Cause> of_the_job = {Cause::kNotStarted, Cause::kDeadlineExceeded, Cause::kSuspended,
                                      Cause::kCompleted};
  std::set<std::string> expected;
  for (const Cause cause : all_causes()) {
    if (of_the_job.count(cause) == 0) expected.emplace(name_of(cause));
  }
  const nlohmann::json::json_pointer names(
      "/properties/spec/properties/restart/properties/rules/items/properties/onReasons/items/enum");
  EXPECT_EQ(training_job_schema().at(names).get<std::set<std::string>>(), expected);
}

}  // namespace
}  // namespace lockstep::api::cause_test
