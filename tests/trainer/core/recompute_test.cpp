// Which steps of a lowered graph run again in the backward pass.
#include "trainer/core/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "trainer/core/memory_plan.h"

namespace lockstep::trainer::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A row of blocks, each of which adds to its input. `heavy` steps read what came before, and again in the backward
// pass. `cheap` ones add up. x -> (heavy 0, cheap 1) -> (heavy 2, cheap 3) -> ... -> loss.
class RowOfBlocks : public ::testing::Test {
 protected:
  explicit RowOfBlocks(int blocks = 4) {
    GraphBuilder build(2);
    TensorId x = build.real_input("x", {2, 4});
    const TensorId target = build.real_input("target", {2, 4});
    for (int i = 0; i < blocks; ++i) {
      const std::string number = std::to_string(i);
      const TensorId inner = ops::linear(build, "heavy" + number, x, 4);
      const TensorId sum = ops::add(build, "sum" + number, inner, x);
      const size_t k = lowered_.steps.size();
      lowered_.steps.push_back({.nodes = {k}, .reads = {x}, .writes = {inner}, .backward_reads = {x}});
      lowered_.steps.push_back({.nodes = {k + 1},
                                .reads = {inner, x},
                                .writes = {sum},
                                .backward_reads = {inner},
                                .gradient_reads = {sum},
                                .cheap = true});
      x = sum;
    }
    graph_ = build.finish(x, ops::mean_squared_error(build, "loss", x, target));
    graph_.outputs.clear();
    lowered_.steps.push_back({.nodes = {lowered_.steps.size()}, .reads = {x}, .backward_reads = {x}});
    lowered_.value_bytes.assign(graph_.tensors.size(), 1000);
    lowered_.gradient_bytes.assign(graph_.tensors.size(), 0);
  }
  std::vector<std::vector<size_t>> before(int depth) const {
    return plan_recomputation(graph_, lowered_, depth).before;
  }

  Graph graph_;
  Lowered lowered_;
};

TEST_F(RowOfBlocks, a_dropped_value_is_written_again_before_its_first_reader) {
  // Of every two sums one stays: the other is computed from it.
  EXPECT_THAT(before(1), ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(1), IsEmpty(), IsEmpty(), IsEmpty(),
                                     ElementsAre(5), IsEmpty(), IsEmpty()));
}

TEST_F(RowOfBlocks, values_in_a_row_are_written_again_from_the_first_to_the_last) {
  EXPECT_THAT(before(3), ElementsAre(IsEmpty(), IsEmpty(), IsEmpty(), IsEmpty(), IsEmpty(), IsEmpty(),
                                     ElementsAre(1, 3, 5), IsEmpty(), IsEmpty()));
  EXPECT_THAT(before(9).back(), ElementsAre(1, 3, 5, 7));
}

TEST_F(RowOfBlocks, outputs_and_losses_stay) {
  const TensorId last = lowered_.steps[7].writes[0];
  graph_.outputs = {{"scores", last}};
  EXPECT_THAT(before(9).back(), IsEmpty());
  graph_.outputs.clear();
  EXPECT_THAT(before(9).back(), ElementsAre(1, 3, 5, 7));
  graph_.losses[0].tensor = last;
  EXPECT_THAT(before(9).back(), IsEmpty());
}

TEST_F(RowOfBlocks, a_step_without_a_backward_pass_or_that_is_not_cheap_stays) {
  lowered_.steps[1].gradient_reads.clear();
  lowered_.steps[3].cheap = false;
  EXPECT_THAT(before(9).back(), ElementsAre(5, 7));
}

TEST_F(RowOfBlocks, a_value_stays_where_another_one_would_have_to) {
  lowered_.steps[5].backward_reads.clear();  // so nothing else needs what step 4 writes
  EXPECT_THAT(before(9)[4], ElementsAre(1, 3));
  EXPECT_THAT(before(9).back(), ElementsAre(7));
}

TEST_F(RowOfBlocks, memory_between_the_passes_is_free_for_others) {
  const Recomputation recomputation = plan_recomputation(graph_, lowered_, 1);
  const MemoryMap map = map_memory(graph_, lowered_, true, recomputation);
  const TensorId dropped = lowered_.steps[1].writes[0];
  const Lifetime& of_dropped = map.blocks[static_cast<size_t>(map.values[static_cast<size_t>(dropped)])];
  EXPECT_EQ(of_dropped.span.first, 1);
  EXPECT_EQ(of_dropped.span.last, 3);  // the sum of the next block reads it
  EXPECT_EQ(of_dropped.again.first, 17 - 2);
  EXPECT_EQ(of_dropped.again.last, 17 - 2);
}

TEST_F(RowOfBlocks, scratch_of_the_forward_pass_is_there_again) {
  lowered_.steps[1].forward_scratch = 64;
  const MemoryMap map = map_memory(graph_, lowered_, true, plan_recomputation(graph_, lowered_, 1));
  const Lifetime& scratch = map.blocks[static_cast<size_t>(map.steps[1].forward_scratch)];
  EXPECT_EQ(scratch.span.first, 1);
  EXPECT_EQ(scratch.again.first, 17 - 2);
}

TEST_F(RowOfBlocks, an_operand_lives_until_its_reader_runs_again) {
  const TensorId operand = lowered_.steps[0].writes[0];
  lowered_.steps[1].backward_reads.clear();
  lowered_.steps[8].backward_reads.push_back(operand);  // at position 9, long before
  const MemoryMap map = map_memory(graph_, lowered_, true, plan_recomputation(graph_, lowered_, 1));
  EXPECT_EQ(map.blocks[static_cast<size_t>(map.values[static_cast<size_t>(operand)])].span.last, 17 - 2);
}

// All depths drop values; the best keeps some, so that not all are there again at once.
class LongRow : public RowOfBlocks {
 protected:
  LongRow() : RowOfBlocks(40) {}
};

TEST_F(LongRow, the_depth_with_the_smallest_arena_is_taken) {
  const auto bytes = [&](const Recomputation& recomputation) {
    return plan_memory(map_memory(graph_, lowered_, true, recomputation).blocks).bytes;
  };
  const PlannedMemory planned = plan_memory_of(graph_, lowered_, true, Recompute::kNorms);
  for (int depth = 1; depth <= 41; ++depth) {
    EXPECT_LE(planned.plan.bytes, bytes(plan_recomputation(graph_, lowered_, depth))) << depth;
  }
  const size_t all = bytes(plan_recomputation(graph_, lowered_, 41)), none = bytes({});
  EXPECT_LT(planned.plan.bytes, all * 7 / 10);
  EXPECT_NEAR(static_cast<double>(all), static_cast<double>(none), static_cast<double>(none) / 10);
  EXPECT_EQ(plan_memory_of(graph_, lowered_, true, Recompute::kAll).plan.bytes, all);
  EXPECT_EQ(plan_memory_of(graph_, lowered_, true, Recompute::kNothing).plan.bytes, none);
}

TEST_F(LongRow, a_prediction_drops_nothing) {
  EXPECT_THAT(plan_memory_of(graph_, lowered_, false, Recompute::kNorms).recomputation.before, IsEmpty());
}

}  // namespace
}  // namespace lockstep::trainer::core
