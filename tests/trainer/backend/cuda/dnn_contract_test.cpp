// What convolution.h promises, on the fake of cuDNN, and how strict that is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/fake_numbers.h"
#include "trainer/backend/cuda/convolution.h"
#include "trainer/backend/cuda/device_memory.h"
#include "trainer/backend/cuda/device_queue.h"
#include "trainer/core/random.h"
#include "trainer/cuda/runtime.h"

namespace lockstep::trainer::cuda {
namespace {

struct Case {
  const char* name;
  ConvolutionShape shape;  // the sizes after it follow from those before
};

ConvolutionShape with_outputs(ConvolutionShape s) {
  s.out_height = (s.height + 2 * s.padding - s.kernel) / s.stride + 1;
  s.out_width = (s.width + 2 * s.padding - s.kernel) / s.stride + 1;
  return s;
}

// Height and width differ, as do channels before and after, so that none can stand for another.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"one_by_one", {.samples = 2, .height = 3, .width = 4, .channels = 5, .outputs = 7}},
      {"one_by_one_stride_2", {.samples = 2, .height = 5, .width = 4, .channels = 3, .outputs = 2, .stride = 2}},
      {"three_by_three",
       {.samples = 2, .height = 5, .width = 4, .channels = 3, .outputs = 6, .kernel = 3, .padding = 1}},
      {"three_by_three_without_padding",
       {.samples = 1, .height = 6, .width = 5, .channels = 2, .outputs = 3, .kernel = 3}},
      {"three_by_three_stride_2",
       {.samples = 2, .height = 7, .width = 6, .channels = 4, .outputs = 3, .kernel = 3, .stride = 2, .padding = 1}},
      {"seven_by_seven_stride_2",
       {.samples = 1, .height = 9, .width = 8, .channels = 3, .outputs = 2, .kernel = 7, .stride = 2, .padding = 3}},
      {"two_groups",
       {.samples = 2, .height = 4, .width = 5, .channels = 6, .outputs = 4, .kernel = 3, .padding = 1, .groups = 2}},
      {"a_group_for_each_channel",
       {.samples = 1, .height = 4, .width = 5, .channels = 3, .outputs = 3, .kernel = 3, .padding = 1, .groups = 3}}};
  return all;
}

using Values = std::vector<float>;

Values reals(std::uint64_t key, std::int64_t count) {
  Values values;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    values.push_back(static_cast<float>(core::normal(key, i)));
  }
  return values;
}

// Calls body(i, j, k) with the places in x, weight and y of the factors of each product that the layer sums.
void for_each_product(const ConvolutionShape& s, const std::function<void(size_t, size_t, size_t)>& body) {
  const std::int64_t in_group = s.channels / s.groups, out_group = s.outputs / s.groups;
  for (std::int64_t y = 0; y < s.samples * s.out_height * s.out_width * s.outputs; ++y) {
    const std::int64_t output = y % s.outputs, column = y / s.outputs % s.out_width;
    const std::int64_t row = y / (s.outputs * s.out_width) % s.out_height;
    const std::int64_t sample = y / (s.outputs * s.out_width * s.out_height);
    for (std::int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
      const std::int64_t h = row * s.stride - s.padding + tap / s.kernel;
      const std::int64_t w = column * s.stride - s.padding + tap % s.kernel;
      if (h < 0 || h >= s.height || w < 0 || w >= s.width) continue;
      for (std::int64_t c = 0; c < in_group; ++c) {
        const std::int64_t x = ((sample * s.height + h) * s.width + w) * s.channels + output / out_group * in_group + c;
        const std::int64_t weight = (output * s.kernel * s.kernel + tap) * in_group + c;
        body(static_cast<size_t>(x), static_cast<size_t>(weight), static_cast<size_t>(y));
      }
    }
  }
}

using Sums = std::array<std::vector<double>, 3>;

// What the passes add to y, x and weight, by loops.
Sums sums_of(const ConvolutionShape& s, const Values& x, const Values& weight, const Values& y) {
  Sums sums = {std::vector<double>(y.size()), std::vector<double>(x.size()), std::vector<double>(weight.size())};
  for_each_product(s, [&](size_t i, size_t j, size_t k) {
    const auto a = static_cast<double>(x[i]), b = static_cast<double>(weight[j]), c = static_cast<double>(y[k]);
    sums[0][k] += a * b;
    sums[1][i] += c * b;
    sums[2][j] += c * a;
  });
  return sums;
}

class Convolutions : public ::testing::Test {
 protected:
  Convolutions() { EXPECT_EQ(dnn_.create(&place_.handle), DnnStatus::kSuccess); }
  ~Convolutions() override { dnn_.destroy(place_.handle); }

  template <typename Element>
  std::unique_ptr<DeviceMemory> put(const std::vector<Element>& values) {
    auto memory = DeviceMemory::allocate(*queue_, values.size() * sizeof(Element)).value();
    queue_->write(memory->data(), values.data(), memory->bytes());
    EXPECT_TRUE(queue_->wait(queue_->mark()).ok());
    return memory;
  }
  template <typename Element = float>
  std::vector<Element> get(const DeviceMemory& memory) {
    std::vector<Element> values(memory.bytes() / sizeof(Element));
    queue_->read(values.data(), memory.data(), memory.bytes());
    EXPECT_TRUE(queue_->wait(queue_->mark()).ok());
    return values;
  }
  static float* floats(const DeviceMemory& memory) { return reinterpret_cast<float*>(memory.data()); }
  // What the fake had against the latest call.
  std::string why() const {
    std::array<char, 256> text{};
    dnn_.last_error(text.data(), text.size());
    return text.data();
  }

  std::unique_ptr<DeviceQueue> queue_ = DeviceQueue::create(*load_cuda_runtime(FAKE_CUDA_LIBRARY).value(), 0).value();
  const Dnn dnn_ = open_dnn(FAKE_CUDNN_LIBRARY).value();
  DnnPlace place_{.dnn = dnn_};
};

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
          ASSERT_NEAR(static_cast<double>(got[i]), sum, 1e-6 * (1 + std::fabs(sum))) << i;
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
          const double tolerance = 0x1.0p-8 * std::exp2(std::floor(std::log2(std::fabs(sum) + 1e-30))) + 1e-6;
          ASSERT_NEAR(static_cast<double>(fake::from_bfloat16(got[i])), sum, tolerance) << i;
        }
      }
    }
  }
}

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

TEST_F(Convolutions, a_plan_takes_no_engine_that_rounds_varies_or_needs_too_much) {
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
  EXPECT_EQ(
      misfit.error().message,
      "cuDNN cannot plan the weights' gradient of a convolution of (2, 5, 4, 3) with 6 kernels of 3 x 3, stride 1, "
      "padding 1 and 1 groups: CUDNN_STATUS_BAD_PARAM (the sizes of the tensors do not fit each other)");
  const auto too_large = ConvolutionPlan::plan(
      place_, with_outputs({.samples = 1, .height = 40, .width = 40, .channels = 1, .outputs = 1, .kernel = 33}),
      ConvolutionPass::kForward, false);
  ASSERT_FALSE(too_large.ok());
  EXPECT_THAT(too_large.error().message, ::testing::EndsWith(": it has no engine for it"));
}

TEST_F(Convolutions, a_library_that_is_missing_is_one_sentence) {
  const auto missing = open_dnn("/nowhere/libcudnn.so");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, ::testing::HasSubstr("--cudnn-library"));
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
}  // namespace lockstep::trainer::cuda
