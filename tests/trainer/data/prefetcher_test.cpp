#include "trainer/data/prefetcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <new>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "tests/sanitizer.h"

namespace lockstep::trainer::data {
namespace {

using std::chrono::seconds;

constexpr auto kDeadline = seconds(20);
const std::atomic<bool> kNever{false};

// A sample is its position, a held-out one its number below 0. A test can hold up, fail and count the parts.
class Storage final : public PartSource {
 public:
  DraftBatch draft(std::int64_t rows) const override {
    if (rows > kMostRows) throw std::bad_alloc();
    return pool_.draft(rows);
  }
  Status fill(const DraftBatch& to, const Part& part, const std::atomic<bool>& abort) override {
    const std::int64_t position = part.position + part.first;
    {
      std::unique_lock lock(mutex_);
      if (!part.held_out) started_.push_back(position);
      threads_.insert(std::this_thread::get_id());
      changed_.notify_all();
      changed_.wait(lock, [&] { return !held_up_.contains(position) || (abort.load() && !hangs_); });
      if (abort.load()) {
        cancelled_ += 1;
        changed_.notify_all();
        return fail(ErrorCode::kCancelled, "cancelled");
      }
      if (auto failing = failures_.find(position); failing != failures_.end()) {
        const Error error = failing->second.first;
        if (--failing->second.second == 0) failures_.erase(failing);
        if (error.code == ErrorCode::kExhausted) throw std::bad_alloc();
        return error;
      }
    }
    for (std::int64_t row = part.first; row < part.first + part.rows; ++row) {
      const std::int64_t number = part.position + row;
      reinterpret_cast<std::int64_t*>(to.inputs[0].data())[row] =
          part.held_out ? -std::min(number, held_out() - 1) : number;
    }
    return {};
  }
  std::int64_t held_out() const override { return 9; }
  Status answers() const override {
    const std::lock_guard guard(mutex_);
    if (!hangs_) return {};
    return fail(ErrorCode::kDeadlineExceeded, "reading file f at offset 3 has not ended");
  }
  void aim(const core::Aim&) override { ++aims; }
  void wake() override {
    { const std::lock_guard guard(mutex_); }
    changed_.notify_all();
  }

  void hold_up(std::int64_t position) {
    const std::lock_guard guard(mutex_);
    held_up_[position] = true;
  }
  void release(std::int64_t position) {
    const std::lock_guard guard(mutex_);
    held_up_.erase(position);
    changed_.notify_all();
  }
  // No abort ends what is held up.
  void hang(bool hangs) {
    const std::lock_guard guard(mutex_);
    hangs_ = hangs;
    changed_.notify_all();
  }
  size_t threads() {
    const std::lock_guard guard(mutex_);
    return threads_.size();
  }
  // `times` parts at `position` fail; 0: all of them. kExhausted is thrown.
  void fails(std::int64_t position, Error error, int times) {
    const std::lock_guard guard(mutex_);
    failures_[position] = {std::move(error), times};
  }
  std::vector<std::int64_t> started() {
    const std::lock_guard guard(mutex_);
    return started_;
  }
  bool await_started(size_t count) {
    return await([=, this] { return started_.size() >= count; });
  }
  bool await_cancelled(size_t count) {
    return await([=, this] { return cancelled_ >= count; });
  }

  std::atomic<int> aims{0};

 private:
  bool await(const std::function<bool()>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kDeadline, condition);
  }
  static constexpr std::int64_t kMostRows = 1000;
  const BatchPool pool_{{sizeof(std::int64_t)}};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::int64_t> started_;
  size_t cancelled_ = 0;
  bool hangs_ = false;
  std::set<std::thread::id> threads_;
  std::map<std::int64_t, bool> held_up_;
  std::map<std::int64_t, std::pair<Error, int>> failures_;
};

std::vector<std::int64_t> numbers_of(const core::Batch& batch) {
  std::vector<std::int64_t> numbers(batch.bytes() / sizeof(std::int64_t));
  std::memcpy(numbers.data(), batch.inputs()[0].data(), batch.bytes());
  return numbers;
}

std::int64_t first_of(const Result<core::Batch>& batch) {
  return batch.ok() ? numbers_of(*batch).front() : -1;
}

std::vector<std::int64_t> count_from(std::int64_t first, std::int64_t rows) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t row = 0; row < rows; ++row) numbers.push_back(first + row);
  return numbers;
}

// Rank 0 of one, one micro-batch of one sample a step: the position is the step.
core::Aim from(std::int64_t step) {
  return {.step = step, .end = 1};
}

TEST(Prefetcher, reads_as_many_batches_ahead_as_asked_and_one_more_after_each_take) {
  const auto storage = std::make_shared<Storage>();
  auto prefetcher = Prefetcher::start(storage, {.threads = 3, .batches = 4}).value();
  prefetcher->aim(from(10));
  ASSERT_TRUE(storage->await_started(4));
  for (std::int64_t step = 10; step < 30; ++step) {
    EXPECT_LE(storage->started().size(), static_cast<size_t>(step - 10 + 4));
    EXPECT_EQ(first_of(prefetcher->take(step, 1, kNever)), step);
    ASSERT_TRUE(storage->await_started(static_cast<size_t>(step - 10 + 5)));
  }
  std::vector<std::int64_t> once = storage->started();
  std::sort(once.begin(), once.end());
  for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(once[i], 10 + static_cast<std::int64_t>(i)) << "read once";
}

TEST(Prefetcher, reads_no_more_bytes_ahead_than_asked_and_always_one_batch) {
  for (const auto& [bytes, batches] : {std::pair<size_t, size_t>{1, 1}, {8, 1}, {16, 2}, {31, 3}, {800, 9}}) {
    const auto storage = std::make_shared<Storage>();
    auto prefetcher = Prefetcher::start(storage, {.threads = 2, .batches = 9, .bytes = bytes}).value();
    prefetcher->aim(from(0));
    ASSERT_TRUE(storage->await_started(batches));
    EXPECT_EQ(first_of(prefetcher->take(0, 1, kNever)), 0);
    ASSERT_TRUE(storage->await_started(batches + 1));
    EXPECT_EQ(storage->started().size(), batches + 1) << bytes << " bytes";
  }
}

TEST(Prefetcher, reads_so_far_ahead_that_each_thread_has_a_part) {
  for (const auto& [rows, batches] : {std::pair<std::int64_t, size_t>{1, 6}, {16, 3}, {80, 2}}) {
    const auto storage = std::make_shared<Storage>();
    auto prefetcher = Prefetcher::start(storage, {.threads = 6}).value();
    prefetcher->aim({.end = 1, .rows = rows});
    const auto parts = static_cast<size_t>((rows + kRowsOfPart - 1) / kRowsOfPart);
    ASSERT_TRUE(storage->await_started(batches * parts)) << rows << " rows";
    EXPECT_EQ(storage->started().size(), batches * parts) << rows << " rows";
  }
}

TEST(Prefetcher, reads_further_ahead_after_a_slow_read_used_up_what_was_ready) {
  const auto storage = std::make_shared<Storage>();
  auto prefetcher = Prefetcher::start(storage, {.threads = 2}).value();
  prefetcher->aim(from(0));
  bool further = false;
  // It depends on the threads whether the window was full before, and whether the third take waits.
  for (std::int64_t step = 0; step < 30'000 && !further; step += 3) {
    storage->hold_up(step + 2);
    EXPECT_EQ(first_of(prefetcher->take(step, 1, kNever)), step);
    EXPECT_EQ(first_of(prefetcher->take(step + 1, 1, kNever)), step + 1);
    auto third = std::async(std::launch::async, [&] { return prefetcher->take(step + 2, 1, kNever); });
    ASSERT_TRUE(storage->await_started(static_cast<size_t>(step + 4)));
    storage->release(step + 2);
    EXPECT_EQ(first_of(third.get()), step + 2);
    further = storage->started().size() > static_cast<size_t>(step + 3 + 2);
  }
  EXPECT_TRUE(further);
}

TEST(Prefetcher, takes_of_a_rank_follow_its_share_over_the_steps) {
  const auto storage = std::make_shared<Storage>();
  auto prefetcher = Prefetcher::start(storage, {.threads = 2, .batches = 3}).value();
  // Micro-batches 1 and 3 of four with two samples each.
  const core::Aim aim{.step = 5, .first = 1, .stride = 2, .end = 4, .micro_batches = 4, .rows = 2};
  prefetcher->aim(aim);
  ASSERT_TRUE(storage->await_started(3));
  for (std::int64_t step = 5; step < 8; ++step) {
    core::Aim again = aim;
    again.step = step;
    prefetcher->aim(again);  // as a replica does before each step
    for (std::int64_t j : {1, 3}) {
      const std::int64_t position = (step * 4 + j) * 2;
      EXPECT_EQ(numbers_of(prefetcher->take(position, 2, kNever).value()),
                (std::vector<std::int64_t>{position, position + 1}));
    }
  }
  EXPECT_EQ(storage->aims, 1) << "an aim that continues the window drops nothing";
}

TEST(Prefetcher, a_peek_gives_only_what_is_read_and_changes_nothing) {
  const auto storage = std::make_shared<Storage>();
  storage->hold_up(2);
  storage->fails(1, fail(ErrorCode::kCorrupt, "file f at offset 1: damaged"), 0);
  auto prefetcher = Prefetcher::start(storage, {.threads = 1, .batches = 3}).value();
  EXPECT_FALSE(prefetcher->peek(0, 1).has_value()) << "nothing was announced";
  prefetcher->aim(from(0));
  ASSERT_TRUE(storage->await_started(3));  // the only thread has read the first two
  for (int i = 0; i < 2; ++i) {
    const auto peeked = prefetcher->peek(0, 1);
    ASSERT_TRUE(peeked.has_value());
    EXPECT_EQ(numbers_of(*peeked), count_from(0, 1));
  }
  EXPECT_FALSE(prefetcher->peek(0, 2).has_value()) << "of another size";
  EXPECT_FALSE(prefetcher->peek(1, 1).has_value()) << "its error is the take's";
  EXPECT_FALSE(prefetcher->peek(2, 1).has_value()) << "it is being read";
  EXPECT_FALSE(prefetcher->peek(3, 1).has_value()) << "beyond the window";
  storage->release(2);
  EXPECT_EQ(first_of(prefetcher->take(0, 1, kNever)), 0);
  EXPECT_EQ(prefetcher->take(1, 1, kNever).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(first_of(prefetcher->take(2, 1, kNever)), 2);
  std::vector<std::int64_t> started = storage->started();
  EXPECT_EQ(std::count(started.begin(), started.end(), 0), 1) << "read once";
}

TEST(Prefetcher, a_rank_without_a_share_reads_nothing) {
  const auto storage = std::make_shared<Storage>();
  auto prefetcher = Prefetcher::start(storage, {}).value();
  prefetcher->aim({.first = 3, .end = 2, .micro_batches = 2});
  EXPECT_EQ(first_of(prefetcher->take(7, 1, kNever)), 7);
  prefetcher.reset();
  EXPECT_EQ(storage->started(), (std::vector<std::int64_t>{7}));
}

TEST(Prefetcher, an_error_surfaces_at_the_take_of_its_position_and_not_earlier) {
  const auto storage = std::make_shared<Storage>();
  storage->fails(2, fail(ErrorCode::kCorrupt, "file f at offset 2: damaged"), 0);
  auto prefetcher = Prefetcher::start(storage, {.threads = 2, .batches = 5}).value();
  prefetcher->aim(from(0));
  ASSERT_TRUE(storage->await_started(5));
  for (std::int64_t step : {0, 1}) EXPECT_EQ(first_of(prefetcher->take(step, 1, kNever)), step);
  for (int i = 0; i < 3; ++i) {
    const auto failed = prefetcher->take(2, 1, kNever);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().message, "file f at offset 2: damaged");
  }
  for (std::int64_t step : {3, 4, 5}) EXPECT_EQ(first_of(prefetcher->take(step, 1, kNever)), step);
}

TEST(Prefetcher, a_batch_whose_read_failed_once_is_read_again) {
  const auto storage = std::make_shared<Storage>();
  storage->fails(1, fail(ErrorCode::kUnavailable, "the storage does not answer"), 1);
  auto prefetcher = Prefetcher::start(storage, {.batches = 4}).value();
  prefetcher->aim(from(0));
  ASSERT_TRUE(storage->await_started(4));
  EXPECT_EQ(prefetcher->take(1, 1, kNever).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(first_of(prefetcher->take(1, 1, kNever)), 1);
}

TEST(Prefetcher, a_take_waits_for_a_slow_read_and_later_batches_are_read_meanwhile) {
  const auto storage = std::make_shared<Storage>();
  storage->hold_up(0);
  auto prefetcher = Prefetcher::start(storage, {.threads = 2, .batches = 3}).value();
  prefetcher->aim(from(0));
  ASSERT_TRUE(storage->await_started(1));
  std::thread later([&] {
    ASSERT_TRUE(storage->await_started(3));
    storage->release(0);
  });
  EXPECT_EQ(first_of(prefetcher->take(0, 1, kNever)), 0);
  later.join();
}

TEST(Prefetcher, abort_ends_a_take_that_waits_and_the_batch_can_be_taken_later) {
  const auto storage = std::make_shared<Storage>();
  storage->hold_up(3);
  auto prefetcher = Prefetcher::start(storage, {}).value();
  prefetcher->aim(from(3));
  ASSERT_TRUE(storage->await_started(1));
  std::atomic<bool> abort{false};
  std::thread aborts([&] {
    abort.store(true);
    prefetcher->wake();
  });
  EXPECT_EQ(prefetcher->take(3, 1, abort).error().code, ErrorCode::kCancelled);
  aborts.join();
  ASSERT_TRUE(storage->await_cancelled(1));
  storage->release(3);
  EXPECT_EQ(first_of(prefetcher->take(3, 1, kNever)), 3);
}

TEST(Prefetcher, abort_ends_a_take_that_was_not_announced) {
  const auto storage = std::make_shared<Storage>();
  storage->hold_up(3);
  auto prefetcher = Prefetcher::start(storage, {}).value();
  std::atomic<bool> abort{false};
  std::thread aborts([&] {
    ASSERT_TRUE(storage->await_started(1));
    abort.store(true);
    prefetcher->wake();
  });
  EXPECT_EQ(prefetcher->take(3, 1, abort).error().code, ErrorCode::kCancelled);
  aborts.join();
}

TEST(Prefetcher, another_aim_cancels_the_reads_and_drops_the_window) {
  const auto storage = std::make_shared<Storage>();
  for (std::int64_t step : {1, 2}) storage->hold_up(step);
  auto prefetcher = Prefetcher::start(storage, {.threads = 2, .batches = 3}).value();
  prefetcher->aim(from(0));
  ASSERT_TRUE(storage->await_started(3));  // both threads wait
  prefetcher->aim(from(100));
  ASSERT_TRUE(storage->await_cancelled(2));
  ASSERT_TRUE(storage->await_started(6));
  EXPECT_EQ(storage->aims, 2);
  for (std::int64_t step : {100, 101, 102}) EXPECT_EQ(first_of(prefetcher->take(step, 1, kNever)), step);
  const std::vector<std::int64_t> started = storage->started();
  EXPECT_TRUE(std::all_of(started.begin() + 3, started.end(), [](auto position) { return position >= 100; }));
}

TEST(Prefetcher, its_end_cancels_what_it_reads) {
  const auto storage = std::make_shared<Storage>();
  storage->hold_up(0);
  auto prefetcher = Prefetcher::start(storage, {}).value();
  prefetcher->aim(from(0));
  ASSERT_TRUE(storage->await_started(1));
  prefetcher.reset();
  EXPECT_TRUE(storage->await_cancelled(1));
}

TEST(Prefetcher, any_aims_and_takes_give_the_bytes_of_the_source) {
  const auto seed = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  auto below = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  for (int round = 0; round < sanitizer::cases(300); ++round) {
    const auto storage = std::make_shared<Storage>();
    auto prefetcher = Prefetcher::start(storage, {.threads = static_cast<int>(1 + below(3)),
                                                  .batches = static_cast<size_t>(1 + below(5)),
                                                  .bytes = static_cast<size_t>(1 + below(200))})
                          .value();
    core::Aim aim{.end = 1};
    for (int call = 0; call < 60; ++call) {
      if (below(8) == 0) {
        aim = {.step = below(20),
               .first = below(4),
               .stride = 1 + below(3),
               .micro_batches = 1 + below(5),
               .rows = 1 + below(4)};
        aim.end = below(aim.micro_batches + 1);
        aim.offset = below(2) * below(50);
        prefetcher->aim(aim);
      }
      // Mostly the next micro-batch, as a replica; at times one that is skipped, repeated or was never announced.
      std::int64_t rows = aim.rows, step = aim.step + call / 4, index = aim.first + call % 4 * aim.stride;
      if (below(6) == 0) rows = 1 + below(4);
      if (below(6) == 0) index += below(9);
      if (below(6) == 0) step = below(40);
      const std::int64_t position = aim.position(step, index) + (below(10) == 0 ? below(3) : 0);
      std::vector<std::int64_t> expected;
      for (std::int64_t row = 0; row < rows; ++row) expected.push_back(position + row);
      const auto batch = prefetcher->take(position, rows, kNever);
      ASSERT_TRUE(batch.ok()) << batch.error().message;
      ASSERT_EQ(numbers_of(*batch), expected) << "round " << round << ", call " << call;
    }
  }
}

TEST(Prefetcher, held_out_samples_come_from_the_source) {
  const auto storage = std::make_shared<Storage>();
  auto prefetcher = Prefetcher::start(storage, {}).value();
  EXPECT_EQ(prefetcher->held_out(), 9);
  EXPECT_EQ(numbers_of(prefetcher->take_held_out(7, 3, kNever).value()), (std::vector<std::int64_t>{-7, -8, -8}));
}

TEST(Prefetcher, the_cpus_that_compute_nothing_read) {
  EXPECT_EQ(reader_threads(16, 1, 4), 8);
  EXPECT_EQ(reader_threads(16, 2, 4), 4);
  EXPECT_EQ(reader_threads(2, 1, 1), 1);
  EXPECT_EQ(reader_threads(2, 2, 2), 1) << "one at least";
}

TEST(Prefetcher, threads_share_the_rows_of_one_batch) {
  const auto storage = std::make_shared<Storage>();
  const std::int64_t rows = 3 * kRowsOfPart + 1;
  for (std::int64_t part = 0; part < 4; ++part) storage->hold_up(part * kRowsOfPart);
  auto prefetcher = Prefetcher::start(storage, {.threads = 4, .batches = 1}).value();
  prefetcher->aim({.end = 1, .rows = rows});
  ASSERT_TRUE(storage->await_started(4)) << "all four threads, at parts of the first batch";
  EXPECT_EQ(storage->threads(), 4U);
  for (std::int64_t part = 0; part < 4; ++part) storage->release(part * kRowsOfPart);
  EXPECT_EQ(numbers_of(prefetcher->take(0, rows, kNever).value()), count_from(0, rows));
}

TEST(Prefetcher, the_rows_of_a_batch_are_the_same_for_every_number_of_threads) {
  for (const int threads : {1, 2, 3, 8}) {
    const auto storage = std::make_shared<Storage>();
    auto prefetcher = Prefetcher::start(storage, {.threads = threads}).value();
    prefetcher->aim({.end = 2, .micro_batches = 2, .rows = 37});
    for (std::int64_t batch = 0; batch < 40; ++batch) {
      ASSERT_EQ(numbers_of(prefetcher->take(37 * batch, 37, kNever).value()), count_from(37 * batch, 37));
    }
  }
}

TEST(Prefetcher, the_error_of_a_batch_is_that_of_its_first_row_that_fails) {
  const auto storage = std::make_shared<Storage>();
  const std::int64_t second = kRowsOfPart, third = 2 * kRowsOfPart;
  for (std::int64_t position : {second, third}) {
    storage->fails(position, fail(ErrorCode::kCorrupt, "at " + std::to_string(position)), 0);
  }
  storage->hold_up(second);
  auto prefetcher = Prefetcher::start(storage, {.threads = 3, .batches = 1}).value();
  prefetcher->aim({.end = 1, .rows = 4 * kRowsOfPart});
  ASSERT_TRUE(storage->await_started(3));
  std::thread later([&] { storage->release(second); });
  EXPECT_EQ(prefetcher->take(0, 4 * kRowsOfPart, kNever).error().message, "at " + std::to_string(second));
  later.join();
}

TEST(Prefetcher, a_thread_without_memory_is_an_error_of_the_take) {
  const auto storage = std::make_shared<Storage>();
  storage->fails(1, fail(ErrorCode::kExhausted, ""), 0);
  auto prefetcher = Prefetcher::start(storage, {}).value();
  prefetcher->aim(from(0));
  EXPECT_EQ(first_of(prefetcher->take(0, 1, kNever)), 0);
  EXPECT_EQ(prefetcher->take(1, 1, kNever).error().message, "cannot load samples: std::bad_alloc");
  EXPECT_EQ(prefetcher->take(0, 1001, kNever).error().message, "no memory for a batch of 1001 samples");
  EXPECT_EQ(first_of(prefetcher->take(2, 1, kNever)), 2);
}

TEST(Prefetcher, a_read_that_hangs_is_an_error_of_the_take_and_does_not_hold_up_the_end) {
  auto storage = std::make_shared<Storage>();
  storage->hold_up(3);
  storage->hang(true);
  auto prefetcher = Prefetcher::start(storage, {.parting = std::chrono::milliseconds(20)}).value();
  prefetcher->aim(from(3));
  for (int i = 0; i < 2; ++i) {  // the second one is read at once
    const auto taken = prefetcher->take(3, 1, kNever);
    ASSERT_FALSE(taken.ok());
    EXPECT_EQ(taken.error().code, ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(taken.error().message, "reading file f at offset 3 has not ended");
  }
  EXPECT_EQ(prefetcher->take_held_out(0, 1, kNever).error().code, ErrorCode::kDeadlineExceeded);
  prefetcher.reset();
  storage->hang(false);
  storage->release(3);
  ASSERT_TRUE(storage->await_cancelled(1)) << "the thread that was left behind ends when its read does";
}

}  // namespace
}  // namespace lockstep::trainer::data
