// A failure keeps the origin that it was given first, through each function that passes it on.
#include "trainer/elastic/outcome.h"

#include <gtest/gtest.h>

#include <memory>
#include <type_traits>

namespace lockstep::trainer::elastic {
namespace {

// An error without an origin does not compile.
static_assert(!std::is_convertible_v<Error, Outcome<>>);
static_assert(!std::is_convertible_v<Error, Outcome<int>>);
static_assert(!std::is_convertible_v<Result<int>, Outcome<int>>);

Outcome<> write(bool works) {
  const Status written = works ? Status() : Status(fail(ErrorCode::kExhausted, "the disk is full"));
  LOCKSTEP_CHECK_OK(from(Origin::kSave, written));
  return {};
}

Outcome<std::unique_ptr<int>> step(bool works) {
  LOCKSTEP_CHECK_OK(write(works));
  LOCKSTEP_TRY(auto number, from(Origin::kCommunication, Result<std::unique_ptr<int>>(std::make_unique<int>(3))));
  return number;
}

TEST(Outcome, a_failure_keeps_its_origin_on_its_way_up) {
  auto failed = step(false);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().origin, Origin::kSave);
  EXPECT_EQ(failed.error().why.code, ErrorCode::kExhausted);
  EXPECT_EQ(failed.error().why.message, "the disk is full");
}

TEST(Outcome, a_value_that_only_moves_comes_through) {
  auto done = step(true);
  ASSERT_TRUE(done);
  EXPECT_EQ(**done, 3);
}

TEST(Outcome, a_sentence_and_its_origin_make_a_failure) {
  const Outcome<int> failed = fail(Origin::kNumerics, ErrorCode::kInvalid, "the loss is not finite");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().origin, Origin::kNumerics);
  EXPECT_EQ(failed.error().why.message, "the loss is not finite");
}

}  // namespace
}  // namespace lockstep::trainer::elastic
