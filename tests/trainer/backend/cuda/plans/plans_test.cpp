// The models' convolutions as the real cuDNN plans them for GPUs that are not there. Where the library is not
// installed, the table that it once printed still lists what the models compute today.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/backend/cuda/plans/plan_table.h"
#include "tests/trainer/backend/cuda/plans/real_cudnn.h"

namespace lockstep::trainer::testing {
namespace {

using cuda::ConvolutionPass;
using cuda::ConvolutionPlan;
using cuda::ConvolutionShape;

constexpr size_t kKib = 1024;

struct Choice {
  std::int64_t engine = -1;
  size_t workspace_kib = 0;
};

// table.txt without its comments.
std::vector<std::string> table_rows() {
  std::ifstream file(PLAN_TABLE);
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#')) rows.push_back(line);
  }
  return rows;
}

// Of each described GPU, as far as the row has them.
std::vector<Choice> choices_of(const std::string& row, const ModelPass& pass) {
  std::istringstream columns(row.substr(row_of(pass).size()));
  std::vector<Choice> choices;
  for (Choice next; columns >> next.engine >> next.workspace_kib;) choices.push_back(next);
  return choices;
}

TEST(PlanTable, lists_each_pass_of_the_models_convolutions) {
  const std::vector<ModelPass> passes = passes_of_models();
  const std::vector<std::string> rows = table_rows();
  ASSERT_EQ(rows.size(), passes.size()) << "run `make cuda-plans`";
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(rows[i].starts_with(row_of(passes[i]))) << rows[i] << "\n" << row_of(passes[i]);
  }
}

TEST(PlanTable, has_a_plan_under_the_ceiling_for_each_gpu) {
  const std::vector<ModelPass> passes = passes_of_models();
  const std::vector<std::string> rows = table_rows();
  ASSERT_EQ(rows.size(), passes.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<Choice> choices = choices_of(rows[i], passes[i]);
    ASSERT_EQ(choices.size(), kDescribedGpus.size()) << rows[i];
    for (const Choice& choice : choices) {
      EXPECT_GE(choice.engine, 0) << rows[i];
      EXPECT_LE(choice.workspace_kib * kKib, cuda::kConvolutionWorkspaceBytes) << rows[i];
    }
  }
}

TEST(ModelPasses, know_which_layers_add_to_their_inputs_gradient) {
  std::vector<std::string> rows;
  for (const ModelPass& pass : passes_of_models()) rows.push_back(row_of(pass));
  const auto has = [&rows](const std::string& layer, const std::string& result) {
    return std::ranges::any_of(rows, [&](const std::string& row) {
      return row.starts_with("resnet18-cifar ") && row.find(' ' + layer + ' ') != std::string::npos &&
             row.find(" fp32 " + result) != std::string::npos;
    });
  };
  EXPECT_FALSE(has("conv1", "dx"));  // its input is the image
  EXPECT_TRUE(has("layer1.0.conv1", "dx +="));
  EXPECT_TRUE(has("layer1.0.conv2", "dx ="));
  EXPECT_TRUE(has("layer2.0.downsample.0", "dx ="));  // after layer2.0.conv1, which then adds
  EXPECT_TRUE(has("layer2.0.conv1", "dx +="));
}

// With the library itself.
class RealCudnn : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = why_no_cudnn(CUDNN_LIBRARIES);
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    auto opened = open_real_dnn(CUDNN_LIBRARIES);
    ASSERT_TRUE(opened) << opened.error().message;
    dnn_ = *opened;
  }

  cuda::Dnn dnn_;
};

TEST_F(RealCudnn, plans_each_pass_for_each_gpu_within_the_tables_workspace) {
  const std::vector<ModelPass> passes = passes_of_models();
  const std::vector<std::string> rows = table_rows();
  ASSERT_EQ(rows.size(), passes.size());
  for (size_t gpu = 0; gpu < kDescribedGpus.size(); ++gpu) {
    const auto device = describe(dnn_, kDescribedGpus[gpu]);
    ASSERT_TRUE(device) << device.error().message;
    const cuda::DnnPlace place{.dnn = dnn_, .device = device->get()};
    for (size_t i = 0; i < passes.size(); ++i) {
      const auto plan = ConvolutionPlan::plan(place, passes[i].shape, passes[i].pass, passes[i].adds);
      ASSERT_TRUE(plan) << kDescribedGpus[gpu].name << "\n" << rows[i] << "\n" << plan.error().message;
      const std::vector<Choice> choices = choices_of(rows[i], passes[i]);
      ASSERT_LT(gpu, choices.size()) << rows[i];
      EXPECT_LE(plan->workspace_bytes(), choices[gpu].workspace_kib * kKib)
          << kDescribedGpus[gpu].name << "\n"
          << rows[i] << "\nif that is well, run `make cuda-plans`";
      const ConvolutionShape& shape = passes[i].shape;
      const bool on_tensor_cores = shape.tf32 || shape.type == cuda::DnnDataType::kBfloat16;
      const cuda::DnnNote also = on_tensor_cores ? cuda::DnnNote::kTensorCore : cuda::DnnNote::kStrictNan;
      EXPECT_THAT(plan->notes(), ::testing::Each(::testing::AnyOf(cuda::DnnNote::kStrictNan, also))) << rows[i];
    }
  }
}

TEST_F(RealCudnn, multiplies_on_tensor_cores_where_tf32_is_asked_for) {
  for (const DescribedGpu& gpu : kDescribedGpus) {
    const auto device = describe(dnn_, gpu);
    ASSERT_TRUE(device) << device.error().message;
    int passes = 0, on_tensor_cores = 0;
    for (const ModelPass& pass : passes_of_models()) {
      if (!pass.shape.tf32) continue;
      const auto plan = ConvolutionPlan::plan({.dnn = dnn_, .device = device->get()}, pass.shape, pass.pass, pass.adds);
      ASSERT_TRUE(plan) << row_of(pass) << "\n" << plan.error().message;
      ++passes;
      on_tensor_cores += std::ranges::find(plan->notes(), cuda::DnnNote::kTensorCore) != plan->notes().end();
    }
    EXPECT_GT(on_tensor_cores, passes * 9 / 10) << gpu.name;
    std::printf("%s: %d of %d passes on tensor cores\n", gpu.name, on_tensor_cores, passes);
  }
}

TEST_F(RealCudnn, refuses_sizes_that_are_not_of_a_convolution) {
  const auto device = describe(dnn_, kDescribedGpus.back());
  ASSERT_TRUE(device) << device.error().message;
  const cuda::DnnPlace place{.dnn = dnn_, .device = device->get()};
  const ConvolutionShape good{.samples = 2,
                              .height = 8,
                              .width = 10,
                              .channels = 4,
                              .out_height = 4,
                              .out_width = 5,
                              .outputs = 6,
                              .kernel = 3,
                              .stride = 2,
                              .padding = 1};
  for (const auto pass :
       {ConvolutionPass::kForward, ConvolutionPass::kInputGradient, ConvolutionPass::kWeightGradient}) {
    const auto refused = [&](auto change) {
      ConvolutionShape bad = good;
      change(bad);
      const auto plan = ConvolutionPlan::plan(place, bad, pass, false);
      return !plan && plan.error().message.find("cuDNN cannot plan") != std::string::npos;
    };
    EXPECT_TRUE(ConvolutionPlan::plan(place, good, pass, false));
    EXPECT_TRUE(refused([](ConvolutionShape& s) { s.stride = 1; }));
    EXPECT_TRUE(refused([](ConvolutionShape& s) { s.padding = 0; }));
    EXPECT_TRUE(refused([](ConvolutionShape& s) { s.kernel = 5; }));
    EXPECT_TRUE(refused([](ConvolutionShape& s) { std::swap(s.out_height, s.out_width); }));
    EXPECT_TRUE(refused([](ConvolutionShape& s) { s.groups = 4; }));
  }
}

TEST_F(RealCudnn, finds_an_engine_that_needs_no_workspace) {
  const auto device = describe(dnn_, kDescribedGpus.front());
  ASSERT_TRUE(device) << device.error().message;
  for (const ModelPass& pass : passes_of_models()) {
    const auto plan =
        ConvolutionPlan::plan({.dnn = dnn_, .device = device->get()}, pass.shape, pass.pass, pass.adds, 0);
    ASSERT_TRUE(plan) << row_of(pass) << "\n" << plan.error().message;
    EXPECT_EQ(plan->workspace_bytes(), 0U);
  }
}

}  // namespace
}  // namespace lockstep::trainer::testing
