// AdaptiveLimit against a simulated server: a few cores, a queue, and refusals beyond its length.
#include "operator/kube/adaptive_limit.h"

#include <gtest/gtest.h>

#include <queue>
#include <random>
#include <vector>

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using Answer = AdaptiveLimit::Answer;

struct Server {
  int cores = 4;
  double seconds = 0.004;  // of one core for one request
  double away = 0.002;     // network and disk: no core
  int queue = 1000;        // requests beyond are refused
};

// Keeps as many requests in flight as the limit allows.
class Load {
 public:
  explicit Load(Server server, AdaptiveLimit::Options options = {}) : limit(options), server_(server) {}

  // Requests served in `seconds` of virtual time.
  int run(double seconds) {
    const double end = now_ + seconds;
    int served = 0;
    while (true) {
      while (static_cast<int>(events_.size()) < limit.limit() && time(now_) >= limit.closed_until()) begin();
      const double next = events_.empty() ? now_ + 0.001 : events_.top().end;
      if (next > end) return served;
      now_ = next;
      if (events_.empty()) continue;
      const Request request = events_.top();
      events_.pop();
      const int inside = static_cast<int>(events_.size()) + 1;
      served += request.answer == Answer::kServed ? 1 : 0;
      limit.ended(time(now_), std::chrono::duration_cast<Duration>(std::chrono::duration<double>(now_ - request.begin)),
                  request.answer, inside, request.answer == Answer::kRefused ? milliseconds(100) : milliseconds(0));
    }
  }
  void set(Server server) { server_ = server; }

  AdaptiveLimit limit;

 private:
  struct Request {
    double end, begin;
    Answer answer;
    bool operator<(const Request& other) const { return end > other.end; }
  };
  static MonotonicTime time(double seconds) {
    return MonotonicTime{
        std::chrono::duration_cast<MonotonicTime::duration>(std::chrono::duration<double>(1000 + seconds))};
  }
  void begin() {
    if (static_cast<int>(events_.size()) >= server_.queue) {
      events_.push({now_ + server_.away, now_, Answer::kRefused});
      return;
    }
    const double rate = static_cast<double>(server_.cores);
    const double start = std::max(free_at_, now_);
    free_at_ = start + server_.seconds / rate;  // the cores together
    const double jitter = std::uniform_real_distribution(0.8, 1.2)(random_);
    events_.push({std::max(free_at_, now_ + server_.seconds) + server_.away * jitter, now_, Answer::kServed});
  }

  Server server_;
  double now_ = 0;
  double free_at_ = 0;
  std::minstd_rand random_{7};
  std::priority_queue<Request> events_;
};

// Seconds that a request is in flight, by Little's law, if `load` has `most` requests at once and serves this many a
// second.
double delay(const Load& load, int served_per_second) {
  return static_cast<double>(load.limit.limit()) / served_per_second;
}

TEST(AdaptiveLimit, it_uses_a_server_fully_without_filling_its_queues) {
  for (const int cores : {1, 2, 8, 16}) {
    Load load({.cores = cores}, {.most = 1000});
    load.run(5);
    const int served = load.run(10);
    EXPECT_GT(served, 0.95 * 10 * cores / 0.004) << cores << " cores";
    EXPECT_LT(delay(load, served / 10), 2.4) << cores << " cores";  // 1.5 * cores are enough; the rest waits
  }
}

TEST(AdaptiveLimit, it_follows_a_server_that_becomes_slower_and_faster) {
  Load load({.cores = 2});
  load.run(5);
  const int before = load.limit.limit();
  EXPECT_EQ(before, static_cast<int>(AdaptiveLimit::Options().most));
  load.set({.cores = 2, .seconds = 0.2});
  load.run(60);
  EXPECT_LT(load.limit.limit(), before / 2);
  load.set({.cores = 2});
  load.run(30);
  EXPECT_EQ(load.limit.limit(), before);
}

// Ends a round of `limit`: as many answers as it allows requests, each after that long.
void end_round(AdaptiveLimit& limit, milliseconds latency, Duration now = {}) {
  const int answers = limit.limit();
  for (int i = 0; i < answers; ++i) limit.ended(MonotonicTime{} + now, latency, Answer::kServed, answers);
}

TEST(AdaptiveLimit, it_doubles_until_the_first_slow_round) {
  AdaptiveLimit limit({.first = 16, .most = 1000});
  for (const int expected : {32, 64, 128}) {
    end_round(limit, milliseconds(100));
    EXPECT_EQ(limit.limit(), expected);
  }
  end_round(limit, milliseconds(2400));
  EXPECT_EQ(limit.limit(), 112) << "5/6 of it, and half of its root";
  end_round(limit, milliseconds(100));
  EXPECT_EQ(limit.limit(), 117) << "half of its root more";
}

TEST(AdaptiveLimit, it_does_not_double_after_a_refusal) {
  AdaptiveLimit limit({.first = 16, .most = 1000});
  limit.ended(MonotonicTime{}, milliseconds(5), Answer::kRefused, 16);
  const MonotonicTime forgotten = MonotonicTime{} + std::chrono::seconds(3);
  for (int i = 0; i < 15; ++i) limit.ended(forgotten, milliseconds(5), Answer::kServed, 16);
  EXPECT_EQ(limit.limit(), 9) << "from 8, by half of the root";
}

TEST(AdaptiveLimit, it_doubles_again_after_a_time_without_answers) {
  AdaptiveLimit limit({.first = 16, .most = 1000});
  end_round(limit, milliseconds(100));
  end_round(limit, milliseconds(4000));
  const int slow = limit.limit();
  EXPECT_LT(slow, 32);
  end_round(limit, milliseconds(100), std::chrono::seconds(9));
  const int before = limit.limit();
  EXPECT_LT(before, 2 * slow);
  end_round(limit, milliseconds(100), std::chrono::seconds(20));
  EXPECT_GE(limit.limit(), 2 * before);
}

TEST(AdaptiveLimit, refusals_halve_it_once_per_round) {
  AdaptiveLimit limit({.first = 32});
  const MonotonicTime now{std::chrono::hours(1)};
  for (int i = 0; i < 16; ++i) limit.ended(now, milliseconds(5), Answer::kRefused, 32, std::chrono::seconds(2));
  EXPECT_EQ(limit.limit(), 16) << "one congestion, however many requests saw it";
  EXPECT_EQ(limit.closed_until(), now + std::chrono::seconds(2));
  for (int i = 0; i < 1000; ++i) limit.ended(now, milliseconds(5), Answer::kLost, 1);
  EXPECT_EQ(limit.limit(), 4) << "the least";
}

TEST(AdaptiveLimit, a_server_that_refuses_beyond_eight_gets_few_more_requests) {
  Load load({.cores = 16, .queue = 8});
  load.run(5);
  EXPECT_GT(load.run(10), 4000);
  EXPECT_LE(load.limit.limit(), 16);
}

TEST(AdaptiveLimit, a_limit_that_is_not_used_does_not_grow) {
  AdaptiveLimit limit({.first = 8});
  const MonotonicTime now{std::chrono::hours(1)};
  for (int i = 0; i < 1000; ++i) limit.ended(now, milliseconds(5), Answer::kServed, 1);
  EXPECT_EQ(limit.limit(), 8);
}

TEST(AdaptiveLimit, it_stays_within_its_bounds) {
  Load load({.cores = 100}, {.first = 8, .most = 20});
  load.run(5);
  EXPECT_EQ(load.limit.limit(), 20);
}

}  // namespace
}  // namespace lockstep::kube
