#include "operator/base/backoff.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, without_jitter_it_doubles_up_to_the_most) {
  Backoff backoff({.first = milliseconds(100), .most = milliseconds(350), .jitter = 0.0});
  EXPECT_EQ(backoff.next(), milliseconds(100));
  EXPECT_EQ(backoff.next(), milliseconds(200));
  EXPECT_EQ(backoff.next(), milliseconds(350));
  EXPECT_EQ(backoff.next(), milliseconds(350));
}

TEST(Backoff, reset_starts_again) {
  Backoff backoff({.first = milliseconds(100), .most = milliseconds(800), .jitter = 0.0});
  (void)backoff.next();
  (void)backoff.next();
  backoff.reset();
  EXPECT_EQ(backoff.next(), milliseconds(100));
}

TEST(Backoff, with_full_jitter_no_delay_exceeds_its_ceiling) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Backoff backoff({.first = milliseconds(100), .most = milliseconds(400)}, seed);
    for (const auto ceiling : {100, 200, 400, 400}) {
      const auto delay = backoff.next();
      EXPECT_GE(delay, Duration::zero()) << "seed " << seed;
      EXPECT_LE(delay, milliseconds(ceiling)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace lockstep
