// How long the blocks of two lowered steps live: forward at positions 0 and 1, backward at 3 and 2.
#include "trainer/core/memory_map.h"

#include <gtest/gtest.h>

namespace lockstep::trainer::core {
namespace {

// x -> h (step 0) -> loss (step 1). Step 0 keeps 8 bytes, and each of its passes has scratch.
class MemoryMapTest : public ::testing::Test {
 protected:
  MemoryMapTest() {
    GraphBuilder build(2);
    x_ = build.real_input("x", {2, 3});
    target_ = build.real_input("target", {2, 4});
    h_ = ops::linear(build, "h", x_, 4);
    graph_ = build.finish(h_, ops::mean_squared_error(build, "loss", h_, target_));
    lowered_.value_bytes.assign(graph_.tensors.size(), 32);
    lowered_.gradient_bytes.assign(graph_.tensors.size(), 0);
    lowered_.gradient_bytes[static_cast<size_t>(h_)] = 32;
    lowered_.steps = {
        {.nodes = {0},
         .reads = {x_},
         .writes = {h_},
         .backward_reads = {x_},
         .gradient_reads = {h_},
         .keeps = {8},
         .forward_scratch = 16,
         .backward_scratch = 24},
        {.nodes = {1}, .reads = {h_, target_}, .writes = {graph_.losses[0].tensor}, .gradient_writes = {h_}}};
  }
  static std::pair<int, int> life(const MemoryMap& map, int block) {
    const Lifetime& lifetime = map.blocks.at(static_cast<size_t>(block));
    return {lifetime.span.first, lifetime.span.last};
  }

  TensorId x_, target_, h_;
  Graph graph_;
  Lowered lowered_;
};

TEST_F(MemoryMapTest, scratch_lives_in_its_pass_and_what_is_kept_between_the_passes) {
  const MemoryMap map = map_memory(graph_, lowered_, true);
  EXPECT_EQ(life(map, map.steps[0].forward_scratch), std::pair(0, 0));
  EXPECT_EQ(life(map, map.steps[0].backward_scratch), std::pair(3, 3));
  EXPECT_EQ(life(map, map.steps[0].keeps[0]), std::pair(0, 3));
  EXPECT_EQ(life(map, map.gradients[static_cast<size_t>(h_)]), std::pair(2, 3));
}

TEST_F(MemoryMapTest, output_and_loss_live_to_the_end) {
  const MemoryMap map = map_memory(graph_, lowered_, true);
  EXPECT_EQ(life(map, map.values[static_cast<size_t>(h_)]), std::pair(0, 4));
  EXPECT_EQ(life(map, map.values[static_cast<size_t>(graph_.losses[0].tensor)]), std::pair(1, 4));
}

TEST_F(MemoryMapTest, a_prediction_keeps_nothing_and_has_no_gradients) {
  const MemoryMap map = map_memory(graph_, lowered_, false);
  EXPECT_EQ(life(map, map.steps[0].keeps[0]), std::pair(0, 0));
  EXPECT_EQ(map.steps[0].backward_scratch, -1);
  EXPECT_EQ(map.gradients[static_cast<size_t>(h_)], -1);
}

TEST_F(MemoryMapTest, inputs_and_fused_activations_have_no_block) {
  lowered_.value_bytes[static_cast<size_t>(h_)] = 0;
  const MemoryMap map = map_memory(graph_, lowered_, true);
  EXPECT_EQ(map.values[static_cast<size_t>(x_)], -1);
  EXPECT_EQ(map.values[static_cast<size_t>(h_)], -1);
}

}  // namespace
}  // namespace lockstep::trainer::core
