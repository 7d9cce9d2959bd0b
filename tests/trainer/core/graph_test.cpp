#include "trainer/core/graph.h"

#include <gtest/gtest.h>

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
