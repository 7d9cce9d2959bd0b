#include "operator/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::log {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

class Log : public ::testing::Test {
 protected:
  ~Log() override { configure(Level::kInfo, Format::kText); }
};

TEST_F(Log, text_quotes_values_with_blanks) {
  configure(Level::kInfo, Format::kText);
  CaptureStderr();
  info("pod deleted", {{"pod", "a-0"}, {"why", "node is gone"}});
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("pod deleted pod=a-0 why=\"node is gone\""));
}

TEST_F(Log, json_is_one_object_a_line_even_with_broken_utf8) {
  configure(Level::kInfo, Format::kJson);
  CaptureStderr();
  warn("odd", {{"bytes", "\xff\n"}});
  const std::string line = GetCapturedStderr();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(nlohmann::json::parse(line)["level"], "warn");
}

TEST_F(Log, records_below_the_level_are_dropped) {
  configure(Level::kWarn, Format::kText);
  CaptureStderr();
  info("quiet");
  EXPECT_EQ(GetCapturedStderr(), "");
}

}  // namespace
}  // namespace lockstep::log
