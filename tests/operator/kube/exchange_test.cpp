// The hand-over of an HTTP exchange: what wakes its consumer, and when the library has to wait.
#include "operator/kube/exchange.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace lockstep::kube {
namespace {

using Event = Exchange::Event;

class ExchangeTest : public ::testing::Test {
 protected:
  std::vector<bool> answers;  // to the library, of its offers
  const std::function<void(bool)> taken = [this](bool wanted) { answers.push_back(wanted); };

  void offer(Exchange& exchange, std::string_view piece) {
    if (const auto at_once = exchange.offer(piece, taken)) answers.push_back(*at_once);
  }
  static Event next(Exchange& exchange) { return exchange.wait({}, std::chrono::steady_clock::now()); }
};

TEST_F(ExchangeTest, pieces_that_wait_come_together_before_the_end) {
  Exchange exchange(false);
  offer(exchange, "one ");
  EXPECT_EQ(next(exchange), Event::kDeadline) << "the head comes first";
  exchange.set_head({200, 0});
  offer(exchange, "two");
  exchange.finish(fail(ErrorCode::kUnavailable, "broken"));
  EXPECT_EQ(answers, (std::vector<bool>{true, true}));
  EXPECT_EQ(next(exchange), Event::kHead);
  ASSERT_EQ(next(exchange), Event::kData);
  EXPECT_EQ(exchange.data(), "one two");
  exchange.take();
  EXPECT_EQ(next(exchange), Event::kEnd);
  EXPECT_TRUE(exchange.failure());
}

TEST_F(ExchangeTest, the_library_waits_while_too_much_waits_to_be_taken) {
  for (const bool whole : {false, true}) {
    Exchange exchange(whole);
    answers.clear();
    exchange.set_head({200, 0});
    EXPECT_EQ(next(exchange), Event::kHead);
    offer(exchange, std::string(Exchange::kAhead - 1, 'x'));
    EXPECT_EQ(answers.size(), 1U);
    offer(exchange, "y");
    EXPECT_EQ(answers.size(), 1U) << "64 KiB wait";
    ASSERT_EQ(next(exchange), Event::kData);
    EXPECT_EQ(exchange.data().size(), Exchange::kAhead);
    EXPECT_EQ(answers.size(), 1U) << "not taken yet";
    exchange.take();
    EXPECT_EQ(answers, (std::vector<bool>{true, true}));
  }
}

TEST_F(ExchangeTest, a_consumer_that_leaves_refuses_what_waits_and_what_comes) {
  Exchange exchange(false);
  offer(exchange, std::string(Exchange::kAhead, 'x'));
  exchange.abandon();
  offer(exchange, "late");
  EXPECT_EQ(answers, (std::vector<bool>{false, false}));
}

TEST_F(ExchangeTest, a_whole_answer_larger_than_the_room_is_taken_in_parts) {
  Exchange exchange(true);
  constexpr int kPieces = 100;
  std::jthread library([&] {
    std::mutex mutex;
    std::condition_variable room;
    for (int piece = 0; piece < kPieces; ++piece) {
      bool has_room = false;
      const auto at_once = exchange.offer(std::string(Exchange::kAhead / 3, 'x'), [&](bool) {
        const std::lock_guard guard(mutex);
        has_room = true;
        room.notify_all();
      });
      if (piece == 3) exchange.set_head({200, 0});  // no room is left, and the head may come after pieces
      if (piece < 3 || at_once) continue;
      std::unique_lock lock(mutex);
      room.wait(lock, [&] { return has_room; });
    }
    exchange.finish(std::nullopt);
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::size_t bytes = 0;
  Event event = exchange.wait({}, deadline);
  EXPECT_EQ(event, Event::kHead);
  while ((event = exchange.wait({}, deadline)) == Event::kData) {
    bytes += exchange.data().size();
    exchange.take();
  }
  EXPECT_EQ(event, Event::kEnd);
  EXPECT_EQ(bytes, kPieces * (Exchange::kAhead / 3));
}

}  // namespace
}  // namespace lockstep::kube
