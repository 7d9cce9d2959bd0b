#include "trainer/core/graph.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::trainer::core {
namespace {

class Finish : public ::testing::Test {
 protected:
  Finish() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
  TensorId cross_entropy(const std::string& name, TensorId scores) {
    return ops::softmax_cross_entropy(build_, name, scores, build_.index_input(name + ".class", {4}));
  }

  GraphBuilder build_{4};
  TensorId x_ = ops::linear(build_, "layer", build_.real_input("x", {4, 3}), 2);
};

TEST_F(Finish, refuses_a_sum_of_losses_by_its_name) {
  auto total = ops::add(build_, "total", cross_entropy("ce1", x_), cross_entropy("ce2", x_));
  EXPECT_DEATH(build_.finish(x_, total),
               "model: layer 'total': the loss must be the output of softmax_cross_entropy or mean_squared_error");
}

TEST_F(Finish, refuses_a_loss_that_another_loss_depends_on) {
  auto inner = cross_entropy("inner", x_);
  auto outer = ops::mean_squared_error(build_, "outer", inner, build_.real_input("target", {4}));
  EXPECT_DEATH(build_.finish(x_, outer), "model: layer 'inner': the loss 'outer' depends on this loss");
}

TEST_F(Finish, refuses_a_loss_that_no_layer_writes) {
  auto values = build_.real_input("values", {4});
  EXPECT_DEATH(build_.finish(x_, values), "model: layer 'values': the loss must be the output of");
}

TEST_F(Finish, refuses_a_loss_of_two_that_depends_on_the_other) {
  auto inner = cross_entropy("inner", x_);
  auto outer = ops::mean_squared_error(build_, "outer", inner, build_.real_input("target", {4}));
  EXPECT_DEATH(build_.finish({{"x", x_}}, {{inner, 1}, {outer, 1}}),
               "model: layer 'inner': the loss 'outer' depends on this loss");
}

TEST_F(Finish, refuses_no_loss_a_loss_given_twice_and_weights_that_train_nothing) {
  auto loss = cross_entropy("loss", x_);
  EXPECT_DEATH(build_.finish({{"x", x_}}, {}), "a graph needs at least one loss");
  EXPECT_DEATH(build_.finish({{"x", x_}}, {{loss, 1}, {loss, 2}}), "model: layer 'loss': the loss is given twice");
  EXPECT_DEATH(build_.finish({{"x", x_}}, {{loss, 0}}), "'loss': the weight of a loss must be finite and not 0");
  EXPECT_DEATH(build_.finish({{"x", x_}}, {{loss, NAN}}), "'loss': the weight of a loss must be finite and not 0");
}

TEST_F(Finish, finds_outputs_by_name) {
  auto y = ops::relu(build_, "y", x_);
  auto loss = cross_entropy("loss", x_);
  Graph graph = build_.finish({{"scores", x_}, {"rectified", y}}, {{loss, 1}});
  EXPECT_EQ(graph.output("scores"), x_);
  EXPECT_EQ(graph.output("rectified"), y);
  EXPECT_DEATH(graph.output("values"), "model: layer 'values': the graph has no output of this name");
}

TEST_F(Finish, refuses_two_layers_inputs_statistics_or_outputs_of_one_name) {
  const auto finish = [](auto add) {
    GraphBuilder build(4);
    auto x = ops::linear(build, "layer", build.real_input("x", {4, 3}), 2);
    x = add(build, x);
    auto loss = ops::mean_squared_error(build, "loss", x, build.real_input("target", {4, 2}));
    build.finish({{"x", x}}, {{loss, 1}});
  };
  EXPECT_DEATH(finish([](auto& b, auto x) { return ops::relu(b, "layer", x); }),
               "model: layer 'layer': another layer has this name");
  EXPECT_DEATH(finish([](auto& b, auto x) {
                 return b.real_input("target", {4, 2}), x;
               }),
               "model: layer 'target': another input, parameter or statistic has this name");
  EXPECT_DEATH(finish([](auto& b, auto x) { return b.statistic("layer.bias", {2}, Fill::kZero, 1), x; }),
               "model: layer 'layer.bias': another input, parameter or statistic has this name");
  auto loss = cross_entropy("loss", x_);
  EXPECT_DEATH(build_.finish({{"x", x_}, {"x", x_}}, {{loss, 1}}), "model: layer 'x': another output has this name");
}

TEST(Parameter, is_shared_by_layers_that_ask_for_the_same_name) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  GraphBuilder build(4);
  TensorId first = build.parameter("shared", {2, 3}, Fill::kNormal, 0.5);
  EXPECT_EQ(build.parameter("shared", {2, 3}, Fill::kNormal, 0.5), first);
  EXPECT_FALSE(build.tensor(first).decay);
  EXPECT_EQ(build.parameter("shared", {2, 3}, Fill::kNormal, 0.5, true), first);
  EXPECT_TRUE(build.tensor(first).decay);
  EXPECT_NE(build.parameter("other", {2, 3}, Fill::kNormal, 0.5), first);
  EXPECT_DEATH(build.parameter("shared", {3, 2}, Fill::kNormal, 0.5),
               "model: layer 'shared': layers that share a parameter must give it one shape");
  EXPECT_DEATH(build.parameter("shared", {2, 3}, Fill::kNormal, 0.25),
               "model: layer 'shared': layers that share a parameter must give it one initial value");
}

TEST_F(Finish, keeps_the_gradients_that_reach_the_loss) {
  auto before = ops::relu(build_, "before", x_);
  auto other = cross_entropy("other", x_);
  auto loss = cross_entropy("loss", x_);
  auto after = ops::relu(build_, "after", before);
  Graph graph = build_.finish(after, loss);
  EXPECT_TRUE(graph.tensor(loss).has_gradient);
  EXPECT_TRUE(graph.tensor(x_).has_gradient);
  for (TensorId id : graph.with_role(Role::kParameter)) EXPECT_TRUE(graph.tensor(id).has_gradient);
  for (TensorId id : {before, after, other}) EXPECT_FALSE(graph.tensor(id).has_gradient) << graph.tensor(id).name;
}

}  // namespace
}  // namespace lockstep::trainer::core
