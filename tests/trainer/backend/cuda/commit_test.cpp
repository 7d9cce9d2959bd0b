// What a step on the CUDA backend commits.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "tests/trainer/backend/bench.h"
#include "tests/trainer/backend/cuda/on_fake.h"
#include "tests/trainer/core/gang.h"
#include "tests/trainer/cuda/fake_cuda.h"
#include "trainer/backend/make_backend.h"
#include "trainer/data/generated.h"
#include "trainer/models/linear_regression.h"

namespace lockstep::trainer::commit_test {
namespace {

using data::BlobSource;
using testing::Rank;
using testing::Recipe;

constexpr std::int64_t kRows = 8;
constexpr double kMomentum = 0.3;

core::Graph normed() {
  core::GraphBuilder build(kRows);
  const auto x = build.real_input("x", {kRows, BlobSource::kFeatures});
  const auto y = core::ops::batch_norm(build, "norm", x, kMomentum);
  const auto scores = core::ops::linear(build, "scores", y, BlobSource::kClasses);
  const auto classes = build.index_input("classes", {kRows});
  return build.finish(scores, core::ops::softmax_cross_entropy(build, "loss", scores, classes));
}

TEST(CommitOnCuda, running_statistics_take_the_momentums_part_of_what_ref_sees) {
  const Recipe recipe{.graph = normed,
                      .source = [](core::ElementType real) { return std::make_unique<BlobSource>(real, 3); },
                      .optimizer = {.rule = core::Sgd{}},
                      .options = {.seed = 3, .micro_batches = 1},
                      .device = [](int) { return testing::fake_gpu(); }};
  comm::SingleRankCommunicator alone;
  Rank rank(recipe, alone);
  const std::vector<double> before = rank.replica->state().statistics;
  const auto step = rank.replica->step({});
  ASSERT_TRUE(step.ok() && step->committed);

  auto ref = backend::make_backend("ref", 1).value();
  const core::Graph graph = normed();
  testing::Bench bench(graph, *ref, BlobSource::kClasses);
  std::vector<double> features(kRows * BlobSource::kFeatures);
  std::vector<std::int32_t> classes(kRows);
  const std::vector<void*> inputs = {features.data(), classes.data()};
  const BlobSource source(core::ElementType::kFloat64, 3);
  for (std::int64_t row = 0; row < kRows; ++row) source.write(row, row, inputs);
  bench.set_all(bench.program().data(graph.with_role(core::Role::kInput)[0]), features);
  bench.loss();

  const std::vector<double>& after = rank.replica->state().statistics;
  ASSERT_EQ(after.size(), bench.staged().size());
  ASSERT_EQ(after.size(), size_t{2 * BlobSource::kFeatures});
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_NEAR(after[i], (1 - kMomentum) * before[i] + kMomentum * bench.staged()[i], 1e-6) << "statistic " << i;
  }
}

// Loses the work of one kernel after the other, until one is the update's.
[[noreturn]] void lose_each_kernel() {
  constexpr int kCounted = 2, kNoneOfAnUpdate = 3, kMost = 200;
  const Recipe recipe{.graph = [] { return models::linear_regression(4); },
                      .source = [](core::ElementType real) { return std::make_unique<data::LineSource>(real, 3); },
                      .optimizer = {.rule = core::Sgd{}},
                      .options = {.seed = 3, .micro_batches = 2},
                      .device = [](int) { return testing::fake_gpu(); }};
  for (int kernel = 0; kernel < kMost; ++kernel) {
    {
      comm::SingleRankCommunicator alone;
      Rank rank(recipe, alone);
      fake_cuda_fail_after(kernel);
      const auto step = rank.replica->step({});
      if (step.ok() && step->committed) std::_Exit(kCounted);
    }
    fake_cuda_fail_after(-1);
    fake_cuda_mend();
  }
  std::_Exit(kNoneOfAnUpdate);
}

TEST(CommitOnCuda, a_step_whose_update_the_gpu_loses_does_not_count) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(lose_each_kernel(), ::testing::ExitedWithCode(backend::kExitDeviceLost),
              "the optimizer's update did not end: GPU 0 ");
}

}  // namespace
}  // namespace lockstep::trainer::commit_test
