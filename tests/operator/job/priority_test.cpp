#include "operator/job/priority.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/operator/kube/fake_api.h"

namespace lockstep::job::priority_test {
namespace {

using namespace std::chrono_literals;
using kube::Json;

class Priority : public ::testing::Test {
 protected:
  Priority() {
    api_.on_list = [this](const kube::ListOptions& options) -> Result<kube::ListPage> {
      ++lists_;
      if (refusal_) return *refusal_;
      // Two pages: the first class, and the rest.
      if (options.continue_token.empty()) return kube::ListPage{{classes_[0]}, "1", "more"};
      return kube::ListPage{{classes_.begin() + 1, classes_.end()}, "1", ""};
    };
  }

  static Json made(const char* name, int value, bool is_default = false) {
    Json object{{"metadata", {{"name", name}}}, {"value", value}};
    if (is_default) object["globalDefault"] = true;
    return object;
  }

  int value_of(const std::string& name) {
    const auto value = classes_of_.value_of(name);
    EXPECT_TRUE(value) << name << ": " << (value ? "" : value.error().message);
    return value ? *value : -1;
  }

  std::vector<Json> classes_{made("system-cluster-critical", 2000000000), made("production", 1000), made("idle", -5)};
  std::optional<Error> refusal_;
  int lists_ = 0;  // pages
  kube::testing::FakeApi api_;
  ManualClock clock_;
  PriorityClasses classes_of_{api_, clock_};
};

TEST_F(Priority, is_the_value_of_the_class) {
  EXPECT_EQ(value_of("production"), 1000);
  EXPECT_EQ(value_of("idle"), -5);
  EXPECT_EQ(value_of("system-cluster-critical"), 2000000000);
  EXPECT_EQ(lists_, 2) << "one list of two pages answers all";
}

TEST_F(Priority, without_a_class_is_that_of_the_clusters_default_or_0) {
  EXPECT_EQ(value_of(""), 0);
  classes_.push_back(made("usual", 70, true));
  clock_.advance(5min);
  EXPECT_EQ(value_of(""), 70);
}

TEST_F(Priority, of_an_unknown_class_is_a_sentence_until_the_class_comes) {
  const auto unknown = classes_of_.value_of("producton");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(unknown.error().message,
            "the job's pods name the PriorityClass \"producton\", which the cluster does not have; did you mean "
            "production?");
  EXPECT_EQ(classes_of_.value_of("x").error().message,
            "the job's pods name the PriorityClass \"x\", which the cluster does not have; create it, or name another");
  EXPECT_EQ(lists_, 2) << "reconciles of a job that waits for its class do not list each time";
  classes_.push_back(made("x", 3));
  clock_.advance(5s);
  EXPECT_EQ(value_of("x"), 3);
}

TEST_F(Priority, is_read_again_after_a_while) {
  EXPECT_EQ(value_of("production"), 1000);
  classes_[1] = made("production", 7);
  clock_.advance(5min - 1ns);
  EXPECT_EQ(value_of("production"), 1000);
  clock_.advance(1ns);
  EXPECT_EQ(value_of("production"), 7);
}

TEST_F(Priority, that_cannot_be_read_is_an_error_unless_no_class_is_named) {
  refusal_ = fail(ErrorCode::kForbidden, "not allowed");
  EXPECT_EQ(value_of(""), 0);
  EXPECT_EQ(classes_of_.value_of("production").error().code, ErrorCode::kForbidden);
  refusal_ = fail(ErrorCode::kUnavailable, "away");
  EXPECT_EQ(classes_of_.value_of("").error().code, ErrorCode::kUnavailable);
  refusal_.reset();
  EXPECT_EQ(value_of("production"), 1000);
}

}  // namespace
}  // namespace lockstep::job::priority_test
