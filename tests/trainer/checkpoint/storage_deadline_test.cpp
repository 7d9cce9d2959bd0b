#include "trainer/checkpoint/storage_deadline.h"

#include <gmock/gmock.h>

#include <memory>
#include <new>
#include <semaphore>
#include <thread>

namespace lockstep::trainer::checkpoint {
namespace {

using std::chrono::seconds;

TEST(StorageDeadline, grows_with_the_state) {
  EXPECT_EQ(storage_deadline(0), seconds(120));
  const std::uint64_t large = std::uint64_t{84} * 1000 * 1000 * 1000;  // AdamW's, of 7 billion parameters
  EXPECT_GT(storage_deadline(large), seconds(120 + 5000));
  EXPECT_LT(storage_deadline(large), seconds(120 + 5050));
  EXPECT_EQ(storage_deadline(~std::uint64_t{0}), seconds(120) + std::chrono::hours(7 * 24)) << "no overflow";
}

TEST(StorageDeadline, work_in_time_gives_its_result_or_its_error) {
  EXPECT_EQ(in_time(seconds(60), "work", [] { return Result<int>(7); }).value(), 7);
  const Result<int> failed =
      in_time(seconds(60), "work", [] { return Result<int>(fail(ErrorCode::kCorrupt, "it is torn")); });
  EXPECT_EQ(failed.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(in_time(seconds(60), "work", [] { return Status(); }).ok());
}

TEST(StorageDeadline, work_without_memory_is_an_error) {
  const Result<int> failed = in_time(seconds(60), "reading /disk", []() -> Result<int> { throw std::bad_alloc(); });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kExhausted);
  EXPECT_EQ(failed.error().message, "reading /disk: std::bad_alloc");
}

TEST(StorageDeadline, work_that_rests_is_abandoned_at_its_deadline) {
  auto storage_is_back = std::make_shared<std::binary_semaphore>(0);
  auto ended = std::make_shared<std::binary_semaphore>(0);
  const auto work = [storage_is_back, ended] {
    storage_is_back->acquire();
    ended->release();
    return Result<int>(7);
  };
  const Result<int> late = in_time(std::chrono::milliseconds(20), "reading /disk", work);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(late.error().message, ::testing::StartsWith("reading /disk takes longer than 0 s"));
  storage_is_back->release();
  ended->acquire();
}

}  // namespace
}  // namespace lockstep::trainer::checkpoint
