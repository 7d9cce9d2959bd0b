#include "trainer/core/hits.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::trainer::core {
namespace {

TEST(PlaceOf, counts_the_classes_with_larger_scores) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    std::vector<double> scores;
    size_t correct;
    std::int64_t place;
  };
  const std::vector<Case> cases = {
      {{3, 1, 2}, 0, 0}, {{3, 1, 2}, 1, 2},   {{3, 1, 2}, 2, 1},   {{1, 1, 1}, 2, 0},
      {{0}, 0, 0},       {{nan, 1, 2}, 2, 1}, {{nan, 1, 2}, 0, 3}, {{-1, -2}, 1, 1},
  };
  for (const Case& c : cases)
    EXPECT_EQ(place_of(c.scores.data(), ElementType::kFloat64, 0, c.scores.size(), c.correct), c.place);
}

TEST(PlaceOf, finds_the_row_of_a_sample) {
  const std::vector<float> scores = {1, 2, 3, 9, 8, 7};
  EXPECT_EQ(place_of(scores.data(), ElementType::kFloat32, 0, 3, 0), 2);
  EXPECT_EQ(place_of(scores.data(), ElementType::kFloat32, 1, 3, 0), 0);
}

Graph classifier(bool keeps_scores) {
  GraphBuilder build(2);
  const TensorId x = build.real_input("x", {2, 3});
  const TensorId classes = build.index_input("class", {2});
  const TensorId scores = ops::linear(build, "scores", x, 4);
  return build.finish(keeps_scores ? scores : x, ops::softmax_cross_entropy(build, "loss", scores, classes));
}

TEST(ClassificationOf, needs_one_row_of_kept_scores_for_each_sample) {
  EXPECT_TRUE(classification_of(classifier(true)).has_value());
  EXPECT_FALSE(classification_of(classifier(false)).has_value()) << "scores that are no output are not kept";
  GraphBuilder text(2);
  const TensorId x = text.real_input("x", {6, 3});
  const TensorId targets = text.index_input("targets", {2, 3});
  const TensorId scores = ops::linear(text, "scores", x, 4);
  EXPECT_FALSE(classification_of(text.finish(scores, ops::softmax_cross_entropy(text, "loss", scores, targets))));
}

}  // namespace
}  // namespace lockstep::trainer::core
