#include "trainer/peak_speed.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/backend/late_backend.h"
#include "trainer/backend/make_backend.h"

namespace lockstep::trainer {
namespace {

// Each product begins at one call of now() and ends at the next. It takes the next of the times, or the last of them.
class ScriptedClock final : public lockstep::Clock {
 public:
  explicit ScriptedClock(std::vector<int> milliseconds) : milliseconds_(std::move(milliseconds)) {}
  MonotonicTime now() const override {
    const size_t product = calls_++ / 2;
    if (calls_ % 2 == 0) now_ += std::chrono::milliseconds(milliseconds_[std::min(product, milliseconds_.size() - 1)]);
    return now_;
  }
  WallTime wall_now() const override { return {}; }
  bool wait_until(std::unique_lock<std::mutex>&, std::condition_variable&, MonotonicTime) override { return false; }

 private:
  const std::vector<int> milliseconds_;
  mutable size_t calls_ = 0;
  mutable MonotonicTime now_{};
};

TEST(PeakSpeed, is_that_of_the_quickest_product_of_the_best_size) {
  const double small = 2.0 * 512 * 512 * 512;
  struct Case {
    std::vector<int> milliseconds;  // of three products of each size; the next size has eight times the work
    double peak;
  };
  for (const Case& one : {Case{{50, 40, 60}, small / 40e-3}, Case{{10, 4, 10, 40}, small / 4e-3},
                          Case{{20, 20, 20, 60, 40, 60}, 8 * small / 40e-3}}) {
    for (const char* name : {"cpu", "late"}) {
      auto backend =
          (name == std::string("cpu") ? backend::make_backend(name, 1) : testing::make_late_backend(1)).value();
      const auto peak = peak_flops(*backend, ScriptedClock(one.milliseconds));
      ASSERT_TRUE(peak.ok()) << peak.error().message;
      EXPECT_NEAR(*peak, one.peak, 1e-6 * one.peak) << name << ::testing::PrintToString(one.milliseconds);
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer
