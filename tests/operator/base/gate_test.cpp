#include "operator/base/gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace lockstep {
namespace {

TEST(Gate, a_closed_gate_admits_no_work) {
  Gate gate;
  gate.close();
  EXPECT_FALSE(gate.enter());
}

TEST(Gate, close_waits_for_the_work_inside) {
  Gate gate;
  std::atomic<bool> left{false};
  Gate::Pass pass = gate.enter();
  ASSERT_TRUE(pass);
  std::thread closer([&] {
    gate.close();
    EXPECT_TRUE(left);
  });
  while (gate.enter()) std::this_thread::yield();  // until close() has begun
  left = true;
  pass = Gate::Pass();
  closer.join();
}

TEST(Gate, a_moved_pass_leaves_once) {
  Gate gate;
  Gate::Pass first = gate.enter();
  Gate::Pass second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(second);
  second = Gate::Pass();
  gate.close();
}

}  // namespace
}  // namespace lockstep
