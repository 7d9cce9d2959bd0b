#include "trainer/core/graph.h"

#include <gtest/gtest.h>

namespace lockstep::trainer::core {
namespace {

class Finish : public ::testing::Test {
 protected:
  TensorId cross_entropy(const std::string& name, TensorId scores) {
    return build_.softmax_cross_entropy(name, scores, build_.index_input(name + ".class", {4}));
  }

  GraphBuilder build_{4};
  TensorId x_ = build_.linear("layer", build_.real_input("x", {4, 3}), 2);
};

TEST_F(Finish, keeps_the_gradients_that_reach_the_loss) {
  auto before = build_.relu("before", x_);
  auto other = cross_entropy("other", x_);
  auto loss = cross_entropy("loss", x_);
  auto after = build_.relu("after", before);
  Graph graph = build_.finish(after, loss);
  EXPECT_TRUE(graph.tensor(loss).has_gradient);
  EXPECT_TRUE(graph.tensor(x_).has_gradient);
  for (TensorId id : graph.with_role(Role::kParameter)) EXPECT_TRUE(graph.tensor(id).has_gradient);
  for (TensorId id : {before, after, other}) EXPECT_FALSE(graph.tensor(id).has_gradient) << graph.tensor(id).name;
}

}  // namespace
}  // namespace lockstep::trainer::core
