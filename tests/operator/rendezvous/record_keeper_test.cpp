// When the record of a job is read or written again.
#include "operator/rendezvous/record_keeper.h"

#include <gtest/gtest.h>

#include <chrono>
#include <variant>

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RecordKeeperTest : public testing::Test {
 protected:
  MonotonicTime now{std::chrono::hours(1)};
  RecordKeeper keeper{1, CoordinatorTiming{}, [] { return std::string(64, 'k'); }};

  // Whether an operation is due after `wait`.
  bool due_after(Duration wait) { return keeper.next_operation({}, Now{now + wait, {}, true}).has_value(); }
  void begin_load() { ASSERT_TRUE(due_after(Duration::zero())); }
  void begin_write() {
    begin_load();
    keeper.on_loaded(GenerationStore::Versioned{}, now);
    Record record;
    record.generation = 1;
    ASSERT_TRUE(keeper.write(record));
  }
  static Error refused(ErrorCode code, double retry_after_seconds) {
    return {code, "the API server is busy", retry_after_seconds};
  }
};

TEST_F(RecordKeeperTest, a_refused_write_waits_for_retry_after) {
  begin_write();
  keeper.on_written(refused(ErrorCode::kTooManyRequests, 7.5), now);
  EXPECT_FALSE(due_after(milliseconds(7499)));
  EXPECT_TRUE(due_after(milliseconds(7500)));
}

TEST_F(RecordKeeperTest, a_refused_load_waits_for_retry_after) {
  begin_load();
  keeper.on_loaded(refused(ErrorCode::kTooManyRequests, 2), now);
  EXPECT_FALSE(due_after(milliseconds(1999)));
  EXPECT_TRUE(due_after(seconds(2)));
}

TEST_F(RecordKeeperTest, a_retry_after_of_minutes_counts_as_thirty_seconds) {
  begin_write();
  keeper.on_written(refused(ErrorCode::kTooManyRequests, 300), now);
  EXPECT_FALSE(due_after(milliseconds(29'999)));
  EXPECT_TRUE(due_after(seconds(30)));
}

TEST_F(RecordKeeperTest, a_failure_without_retry_after_waits_half_a_second) {
  begin_write();
  keeper.on_written(refused(ErrorCode::kUnavailable, 0), now);
  EXPECT_FALSE(due_after(milliseconds(499)));
  EXPECT_TRUE(due_after(milliseconds(500)));
}

TEST_F(RecordKeeperTest, a_shorter_retry_after_does_not_hasten) {
  begin_write();
  keeper.on_written(refused(ErrorCode::kTooManyRequests, 0.1), now);
  EXPECT_FALSE(due_after(milliseconds(499)));
  EXPECT_TRUE(due_after(milliseconds(500)));
}

TEST_F(RecordKeeperTest, a_conflict_is_read_again_at_once) {
  begin_write();
  keeper.on_written(refused(ErrorCode::kConflict, 0), now);
  const auto next = keeper.next_operation({}, Now{now, {}, true});
  ASSERT_TRUE(next);
  EXPECT_TRUE(std::holds_alternative<LoadRecord>(*next));
}

}  // namespace
}  // namespace lockstep::rendezvous
