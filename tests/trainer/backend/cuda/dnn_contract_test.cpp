// What convolution.h promises, on the cuDNN under test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/fake_numbers.h"
#include "tests/trainer/backend/cuda/libraries.h"

namespace lockstep::trainer::cuda::dnn_contract_test {
namespace {

// The most products that an element of the pass's result sums.
std::int64_t terms_of(const ConvolutionShape& s, ConvolutionPass pass) {
  if (pass == ConvolutionPass::kWeightGradient) return s.samples * s.out_height * s.out_width;
  const std::int64_t channels = pass == ConvolutionPass::kForward ? s.channels : s.outputs;
  return s.kernel * s.kernel * channels / s.groups;
}

TEST_F(Convolutions, are_those_of_loops_for_every_shape_and_pass) {
  for (const Case& at : cases()) {
    const ConvolutionShape s = with_outputs(at.shape);
    const Values x = reals(1, s.samples * s.height * s.width * s.channels);
    const Values weight = reals(2, s.outputs * s.kernel * s.kernel * s.channels / s.groups);
    const Values y = reals(3, s.samples * s.out_height * s.out_width * s.outputs);
    const Sums expected = sums_of(s, x, weight, y);
    for (const auto pass :
         {ConvolutionPass::kForward, ConvolutionPass::kInputGradient, ConvolutionPass::kWeightGradient}) {
      for (const bool adds : {false, true}) {
        const auto number = static_cast<size_t>(pass);
        SCOPED_TRACE(std::string(at.name) + ", pass " + std::to_string(number) + (adds ? ", adds" : ""));
        const Values before =
            adds ? reals(4, static_cast<std::int64_t>(expected[number].size())) : Values(expected[number].size(), NAN);
        auto a = put(pass == ConvolutionPass::kInputGradient ? y : x);
        auto b = put(pass == ConvolutionPass::kWeightGradient ? y : weight), result = put(before);
        auto plan = ConvolutionPlan::plan(place_, s, pass, adds);
        ASSERT_TRUE(plan.ok()) << plan.error().message;
        auto workspace = DeviceMemory::allocate(*queue_, plan->workspace_bytes()).value();
        ASSERT_EQ(plan->run(floats(*a), floats(*b), floats(*result), workspace->data(), queue_->stream()),
                  DnnStatus::kSuccess)
            << why();
        const Values got = get(*result);
        for (size_t i = 0; i < got.size(); ++i) {
          const double sum = expected[number][i] + (adds ? static_cast<double>(before[i]) : 0.0);
          ASSERT_NEAR(static_cast<double>(got[i]), sum,
                      trainer::testing::sum_tolerance(terms_of(s, pass)) * (1 + std::fabs(sum)))
              << i;
        }
      }
    }
  }
}

// Numbers as bfloat16 holds them, and in its memory.
struct Halves {
  Values values;
  std::vector<std::uint16_t> bits;
};

Halves halves(std::uint64_t key, std::int64_t count) {
  Halves made;
  for (const float value : reals(key, count)) {
    made.bits.push_back(fake::to_bfloat16(value));
    made.values.push_back(fake::from_bfloat16(made.bits.back()));
  }
  return made;
}

TEST_F(Convolutions, of_bfloat16_are_rounded_once) {
  for (const Case& at : cases()) {
    ConvolutionShape s = with_outputs(at.shape);
    s.type = DnnDataType::kBfloat16;
    const Halves x = halves(1, s.samples * s.height * s.width * s.channels);
    const Halves weight = halves(2, s.outputs * s.kernel * s.kernel * s.channels / s.groups);
    const Halves y = halves(3, s.samples * s.out_height * s.out_width * s.outputs);
    const Sums expected = sums_of(s, x.values, weight.values, y.values);
    for (const auto pass :
         {ConvolutionPass::kForward, ConvolutionPass::kInputGradient, ConvolutionPass::kWeightGradient}) {
      for (const bool adds : {false, true}) {
        const auto number = static_cast<size_t>(pass);
        SCOPED_TRACE(std::string(at.name) + ", pass " + std::to_string(number) + (adds ? ", adds" : ""));
        const Halves before = halves(4, static_cast<std::int64_t>(expected[number].size()));
        auto a = put(pass == ConvolutionPass::kInputGradient ? y.bits : x.bits);
        auto b = put(pass == ConvolutionPass::kWeightGradient ? y.bits : weight.bits), result = put(before.bits);
        auto plan = ConvolutionPlan::plan(place_, s, pass, adds);
        ASSERT_TRUE(plan.ok()) << plan.error().message;
        EXPECT_THAT(plan->notes(), ::testing::Each(::testing::AnyOf(DnnNote::kStrictNan, DnnNote::kTensorCore)));
        auto workspace = DeviceMemory::allocate(*queue_, plan->workspace_bytes()).value();
        ASSERT_EQ(plan->run(a->data(), b->data(), result->data(), workspace->data(), queue_->stream()),
                  DnnStatus::kSuccess)
            << why();
        const auto got = get<std::uint16_t>(*result);
        for (size_t i = 0; i < got.size(); ++i) {
          const double sum = expected[number][i] + (adds ? static_cast<double>(before.values[i]) : 0.0);
          // Half a unit in the last place of 8 bits, and what float32 loses.
          const double tolerance = 0x1.0p-8 * std::exp2(std::floor(std::log2(std::fabs(sum) + 1e-30))) +
                                   trainer::testing::sum_tolerance(terms_of(s, pass));
          ASSERT_NEAR(static_cast<double>(fake::from_bfloat16(got[i])), sum, tolerance) << i;
        }
      }
    }
  }
}

TEST_F(Convolutions, a_plan_takes_no_engine_that_rounds_varies_or_needs_too_much) {
  for (const Case& at : cases()) {
    SCOPED_TRACE(at.name);
    const auto plan = ConvolutionPlan::plan(place_, with_outputs(at.shape), ConvolutionPass::kForward, false);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_LE(plan->workspace_bytes(), kConvolutionWorkspaceBytes);
    EXPECT_THAT(plan->notes(), ::testing::Each(DnnNote::kStrictNan));
  }
}

TEST_F(Convolutions, a_library_that_is_missing_is_one_sentence) {
  const auto missing = open_dnn("/nowhere/libcudnn.so");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, ::testing::HasSubstr("--cudnn-library"));
}

}  // namespace
}  // namespace lockstep::trainer::cuda::dnn_contract_test
