// How strict the fake of cuDNN is, and which engines it offers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/fake_numbers.h"
#include "tests/trainer/backend/cuda/libraries.h"

namespace lockstep::trainer::cuda::fake_dnn_test {
namespace {

Values in_tf32(Values values) {
  for (float& value : values) value = fake::to_tf32(value);
  return values;
}

TEST_F(Convolutions, round_their_operands_to_tf32_only_if_asked) {
  for (const Case& at : cases()) {
    ConvolutionShape s = with_outputs(at.shape);
    const Values x = reals(1, s.samples * s.height * s.width * s.channels);
    const Values weight = reals(2, s.outputs * s.kernel * s.kernel * s.channels / s.groups);
    const Values y = reals(3, s.samples * s.out_height * s.out_width * s.outputs);
    const Sums exact = sums_of(s, x, weight, y), rounded = sums_of(s, in_tf32(x), in_tf32(weight), in_tf32(y));
    for (const bool tf32 : {false, true}) {
      s.tf32 = tf32;
      for (const auto pass :
           {ConvolutionPass::kForward, ConvolutionPass::kInputGradient, ConvolutionPass::kWeightGradient}) {
        const auto number = static_cast<size_t>(pass);
        SCOPED_TRACE(std::string(at.name) + ", pass " + std::to_string(number) + (tf32 ? ", in TF32" : ""));
        const Values before = reals(4, static_cast<std::int64_t>(exact[number].size()));
        auto a = put(pass == ConvolutionPass::kInputGradient ? y : x);
        auto b = put(pass == ConvolutionPass::kWeightGradient ? y : weight), result = put(before);
        auto plan = ConvolutionPlan::plan(place_, s, pass, true);
        ASSERT_TRUE(plan.ok()) << plan.error().message;
        EXPECT_THAT(plan->notes(), ::testing::Each(tf32 ? DnnNote::kTensorCore : DnnNote::kStrictNan));
        auto workspace = DeviceMemory::allocate(*queue_, plan->workspace_bytes()).value();
        ASSERT_EQ(plan->run(a->data(), b->data(), result->data(), workspace->data(), queue_->stream()),
                  DnnStatus::kSuccess)
            << why();
        const Values got = get(*result);
        double error = 0, other_error = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          const double added = static_cast<double>(got[i]) - static_cast<double>(before[i]);
          error = std::max(error, std::fabs(added - (tf32 ? rounded : exact)[number][i]));
          other_error = std::max(other_error, std::fabs(added - (tf32 ? exact : rounded)[number][i]));
        }
        EXPECT_LT(error, 1e-5);
        EXPECT_GT(other_error, 1e-4);
      }
    }
  }
}

TEST_F(Convolutions, a_plan_passes_over_engines_that_need_too_much) {
  const ConvolutionShape s = with_outputs(cases()[2].shape);
  const auto plan = ConvolutionPlan::plan(place_, s, ConvolutionPass::kForward, false);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_GT(plan->workspace_bytes(), 0U);
  EXPECT_LE(plan->workspace_bytes(), kConvolutionWorkspaceBytes);
  EXPECT_THAT(plan->notes(), ::testing::Each(DnnNote::kStrictNan));
  const auto bounded = ConvolutionPlan::plan(place_, s, ConvolutionPass::kForward, false, 16);
  ASSERT_TRUE(bounded.ok()) << bounded.error().message;
  EXPECT_EQ(bounded->workspace_bytes(), 0U);
  EXPECT_NE(bounded->engine(), plan->engine());
}

TEST_F(Convolutions, a_plan_takes_the_fallback_where_the_heuristics_fail) {
  const auto plan = ConvolutionPlan::plan(
      place_, with_outputs({.samples = 1, .height = 40, .width = 40, .channels = 1, .outputs = 1, .kernel = 29}),
      ConvolutionPass::kForward, false);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->workspace_bytes(), 0U);
}

TEST_F(Convolutions, a_plan_that_the_library_cannot_make_is_one_sentence) {
  ConvolutionShape s = with_outputs(cases()[2].shape);
  s.out_width += 1;
  const auto misfit = ConvolutionPlan::plan(place_, s, ConvolutionPass::kWeightGradient, true);
  ASSERT_FALSE(misfit.ok());
  EXPECT_EQ(misfit.error().code, ErrorCode::kInternal);
  EXPECT_EQ(misfit.error().message,
            "cuDNN cannot plan the weights' gradient of a convolution of (2, 5, 4, 3) with 6 kernels of 3 x 3; "
            "stride 1, padding 1, 1 groups: CUDNN_STATUS_BAD_PARAM (the sizes of the tensors do not fit each other)");
  const auto too_large = ConvolutionPlan::plan(
      place_, with_outputs({.samples = 1, .height = 40, .width = 40, .channels = 1, .outputs = 1, .kernel = 33}),
      ConvolutionPass::kForward, false);
  ASSERT_FALSE(too_large.ok());
  EXPECT_THAT(too_large.error().message, ::testing::EndsWith(": it has no engine for it"));
}

// One convolution from its descriptors, with room for one mistake.
class Descriptors : public Convolutions {
 protected:
  using Made = std::unique_ptr<DnnDescriptor, DnnStatus (*)(DnnDescriptor*)>;

  Made create(DnnKind kind) {
    DnnDescriptor* made = nullptr;
    EXPECT_EQ(dnn_.create_descriptor(kind, &made), DnnStatus::kSuccess);
    return {made, dnn_.destroy_descriptor};
  }
  template <typename Element>
  DnnStatus set(const Made& of, DnnAttribute attribute, DnnType type, std::vector<Element> elements) {
    return dnn_.set(of.get(), attribute, type, static_cast<std::int64_t>(elements.size()), elements.data());
  }
  using Numbers = std::vector<std::int64_t>;

  Made tensor(std::int64_t id, const Numbers& dimensions, const Numbers& strides) {
    Made made = create(DnnKind::kTensor);
    set(made, DnnAttribute::kTensorId, DnnType::kInt64, Numbers{id});
    set(made, DnnAttribute::kTensorType, DnnType::kDataType, std::vector{DnnDataType::kFloat32});
    set(made, DnnAttribute::kTensorAlignment, DnnType::kInt64, Numbers{64});
    set(made, DnnAttribute::kTensorDimensions, DnnType::kInt64, dimensions);
    set(made, DnnAttribute::kTensorStrides, DnnType::kInt64, strides);
    return made;
  }
  Made images(std::int64_t id, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    Made made = tensor(id, {n, c, h, w}, {h * w * c, 1, w * c, c});
    EXPECT_EQ(dnn_.finalize(made.get()), DnnStatus::kSuccess) << why();
    return made;
  }
  Made convolution(const Numbers& strides, const Numbers& padding) {
    Made made = create(DnnKind::kConvolution);
    set(made, DnnAttribute::kConvolutionType, DnnType::kDataType, std::vector{DnnDataType::kFloat32});
    set(made, DnnAttribute::kConvolutionMode, DnnType::kMode, std::vector{DnnConvolutionMode::kCrossCorrelation});
    set(made, DnnAttribute::kConvolutionSpatial, DnnType::kInt64, Numbers{2});
    set(made, DnnAttribute::kConvolutionDilations, DnnType::kInt64, Numbers{1, 1});
    set(made, DnnAttribute::kConvolutionStrides, DnnType::kInt64, strides);
    set(made, DnnAttribute::kConvolutionPrePaddings, DnnType::kInt64, padding);
    set(made, DnnAttribute::kConvolutionPostPaddings, DnnType::kInt64, padding);
    return made;
  }
  Made forward(const Made& how, const Made& x, const Made& w, const Made& y) {
    Made made = create(DnnKind::kForward);
    set(made, DnnAttribute::kForwardAlpha, DnnType::kFloat, std::vector{1.0F});
    set(made, DnnAttribute::kForwardBeta, DnnType::kFloat, std::vector{0.0F});
    set(made, DnnAttribute::kForwardConvolution, DnnType::kDescriptor, std::vector{how.get()});
    set(made, DnnAttribute::kForwardX, DnnType::kDescriptor, std::vector{x.get()});
    set(made, DnnAttribute::kForwardW, DnnType::kDescriptor, std::vector{w.get()});
    set(made, DnnAttribute::kForwardY, DnnType::kDescriptor, std::vector{y.get()});
    return made;
  }
  DnnStatus finalize(const Made& of) { return dnn_.finalize(of.get()); }
};

// plans/refusals_test.cpp has what the library refuses as well.
TEST_F(Descriptors, the_fake_is_stricter_than_the_library) {
  EXPECT_EQ(finalize(tensor(1, {2, 3, 4, 5}, {60, 20, 5, 1})), DnnStatus::kNotSupported) << "channels first";
  const Made x = images(1, 2, 3, 4, 5), w = images(2, 6, 3, 3, 3), y = images(3, 2, 6, 4, 5);
  const Made how = convolution({1, 1}, {1, 1});
  EXPECT_EQ(set(how, DnnAttribute::kConvolutionStrides, DnnType::kInt64, Numbers{1}), DnnStatus::kBadParam);
  EXPECT_EQ(finalize(how), DnnStatus::kSuccess) << why();
  EXPECT_EQ(finalize(forward(how, x, w, y)), DnnStatus::kSuccess) << why();
  EXPECT_EQ(finalize(forward(how, x, w, images(1, 2, 6, 4, 5))), DnnStatus::kBadParam) << "two tensors with one number";
}

TEST_F(Descriptors, the_fake_runs_a_plan_on_what_its_pack_says_alone) {
  const ConvolutionShape s = with_outputs(cases()[2].shape);
  auto plan = ConvolutionPlan::plan(place_, s, ConvolutionPass::kForward, false);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  auto x = put(reals(1, 4096)), weight = put(reals(2, 4096)), y = put(reals(3, 4096));
  auto workspace = DeviceMemory::allocate(*queue_, plan->workspace_bytes()).value();
  const auto run = [&](const float* a, void* scratch) {
    return plan->run(a, floats(*weight), floats(*y), scratch, queue_->stream());
  };
  EXPECT_EQ(run(floats(*x), workspace->data()), DnnStatus::kSuccess);
  EXPECT_EQ(run(floats(*x) + 1, workspace->data()), DnnStatus::kMisaligned);
  EXPECT_EQ(run(nullptr, workspace->data()), DnnStatus::kNullPointer);
  EXPECT_EQ(run(floats(*x), nullptr), DnnStatus::kNullPointer) << "no workspace";

  const Made pack = create(DnnKind::kVariantPack);
  set(pack, DnnAttribute::kPackIds, DnnType::kInt64, Numbers{1, 2});
  set(pack, DnnAttribute::kPackPointers, DnnType::kVoidPointer, std::vector<void*>{x->data()});
  EXPECT_EQ(finalize(pack), DnnStatus::kBadParam) << "a pointer is missing";
  EXPECT_EQ(dnn_.execute(place_.handle, pack.get(), pack.get()), DnnStatus::kNotFinalized);
  EXPECT_TRUE(queue_->wait(queue_->mark()).ok());
}

using ConvolutionsDeathTest = Convolutions;

TEST_F(ConvolutionsDeathTest, too_little_memory_ends_the_process_with_a_sentence) {
  const ConvolutionShape s = with_outputs(cases()[2].shape);
  auto plan = ConvolutionPlan::plan(place_, s, ConvolutionPass::kForward, false);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  auto x = put(reals(1, 4096)), weight = put(reals(2, 4096)), y = put(reals(3, 4096)), little = put(reals(4, 16));
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        plan->run(floats(*x), floats(*weight), floats(*y), little->data(), queue_->stream());
        static_cast<void>(queue_->wait(queue_->mark()));
      },
      "libfakecuda: ");
}

}  // namespace
}  // namespace lockstep::trainer::cuda::fake_dnn_test
