#include "operator/base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace lockstep {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorCode::kInvalid, "odd");
  return value / 2;
}

Result<int> quarter(int value) {
  LOCKSTEP_TRY(const int once, half(value));
  LOCKSTEP_TRY(const int twice, half(once));
  return twice;
}

Status check_even(int value) {
  LOCKSTEP_CHECK_OK([&]() -> Status {
    if (auto result = half(value); !result) return result.error();
    return {};
  }());
  return {};
}

TEST(Result, try_passes_values_through) {
  EXPECT_EQ(quarter(8).value(), 2);
}

TEST(Result, try_returns_the_first_error) {
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_EQ(quarter(3).error().code, ErrorCode::kInvalid);
}

TEST(Result, check_ok_returns_the_error_of_a_status) {
  EXPECT_TRUE(check_even(2).ok());
  EXPECT_EQ(check_even(1).error().message, "odd");
}

TEST(Result, holds_a_value_that_cannot_be_copied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
}

TEST(Result, an_error_in_context_keeps_code_and_delay) {
  const Error error = Error{ErrorCode::kTooManyRequests, "slow down", 1.5}.in("listing pods");
  EXPECT_EQ(error.message, "listing pods: slow down");
  EXPECT_EQ(error.code, ErrorCode::kTooManyRequests);
  EXPECT_DOUBLE_EQ(error.retry_after_seconds, 1.5);
}

TEST(Result, every_code_has_a_name) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    EXPECT_STRNE(error_code_name(static_cast<ErrorCode>(code)), "unknown") << code;
  }
}

}  // namespace
}  // namespace lockstep
