#include "trainer/core/layout.h"

#include <gtest/gtest.h>

namespace lockstep::trainer::core {
namespace {

Graph three_layers() {
  GraphBuilder build(4);
  auto x = build.real_input("x", {4, 64});
  auto target = build.real_input("target", {4, 64});
  for (const char* name : {"a", "b", "c"}) x = core::ops::linear(build, name, x, 64);
  return build.finish(x, core::ops::mean_squared_error(build, "loss", x, target));
}

TEST(Layout, parameters_lie_in_the_order_in_which_their_gradients_become_ready) {
  Layout layout = lay_out(three_layers());
  std::vector<std::string> names;
  for (const Segment& segment : layout.segments) names.push_back(segment.name);
  EXPECT_EQ(names, (std::vector<std::string>{"c.weight", "c.bias", "b.weight", "b.bias", "a.weight", "a.bias"}));
  EXPECT_EQ(layout.buckets.size(), 1U);
}

TEST(Layout, buckets_are_contiguous_bounded_and_the_first_is_smaller) {
  size_t weight = 64 * 64 * sizeof(float), bias = 64 * sizeof(float);
  Layout layout = lay_out(three_layers(), {.first_bytes = weight + bias, .bytes = 2 * (weight + bias)});
  ASSERT_EQ(layout.buckets.size(), 2U);
  EXPECT_EQ(layout.buckets[0].begin, 0U);
  EXPECT_EQ(layout.buckets[0].end, layout.buckets[1].begin);
  EXPECT_EQ(layout.buckets[1].end, layout.count);
  EXPECT_EQ(layout.buckets[0].ready_node, 2U) << "after the backward pass of layer c";
  EXPECT_EQ(layout.buckets[1].ready_node, 0U);
}

TEST(Layout, a_tensor_larger_than_a_bucket_is_a_bucket_of_its_own) {
  Layout layout = lay_out(three_layers(), {.first_bytes = 1024, .bytes = 1024});
  EXPECT_EQ(layout.buckets.size(), 6U);
}

TEST(Layout, a_parameter_that_is_used_twice_is_ready_after_its_last_use) {
  GraphBuilder build(2);
  auto shared = build.parameter("shared", {2, 8}, Fill::kNormal, 1);
  auto target = build.real_input("target", {2, 8});
  auto y = core::ops::gelu(build, "early", shared);
  y = core::ops::add(build, "late", y, shared);
  Layout layout = lay_out(build.finish(y, core::ops::mean_squared_error(build, "loss", y, target)));
  EXPECT_EQ(layout.buckets.at(0).ready_node, 0U);
}

TEST(Layout, a_parameter_that_layers_share_is_ready_after_the_first_of_them) {
  GraphBuilder build(2);
  auto characters = build.index_input("characters", {2, 4});
  auto targets = build.index_input("targets", {2, 4});
  auto y = core::ops::embedding(build, "embedding", characters, 9, 4, 8);
  y = core::ops::linear(build, "between", y, 8);
  y = core::ops::linear(build, "scores", y, 9, false, 0.02, "embedding.table");
  Layout layout = lay_out(build.finish(y, core::ops::softmax_cross_entropy(build, "loss", y, targets)),
                          {.first_bytes = 1, .bytes = 1});
  ASSERT_EQ(layout.segments.size(), 4U);
  EXPECT_EQ(layout.segments[2].name, "embedding.table") << "behind those of the layer between";
  EXPECT_EQ(layout.buckets[2].ready_node, 0U);
}

}  // namespace
}  // namespace lockstep::trainer::core
