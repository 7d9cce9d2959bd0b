// Kernels on bfloat16 beside the same kernels on float, which the tests of each family hold against formulas. On
// numbers that bfloat16 has, a kernel of bfloat16 computes what the one of float does and rounds what it stores once:
// bit by bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/trainer/backend/cuda/fake_numbers.h"
#include "tests/trainer/backend/cuda/kernels/images.h"
#include "tests/trainer/backend/cuda/kernels/kernel_test.h"
#include "trainer/backend/cuda/kernels/attention.h"
#include "trainer/backend/cuda/kernels/batch_norm.h"
#include "trainer/backend/cuda/kernels/bias.h"
#include "trainer/backend/cuda/kernels/depthwise.h"
#include "trainer/backend/cuda/kernels/dropout.h"
#include "trainer/backend/cuda/kernels/elementwise.h"
#include "trainer/backend/cuda/kernels/embedding.h"
#include "trainer/backend/cuda/kernels/global_average_pool.h"
#include "trainer/backend/cuda/kernels/layer_norm.h"
#include "trainer/backend/cuda/kernels/losses.h"
#include "trainer/backend/cuda/kernels/max_pool.h"

namespace lockstep::trainer::cuda::bfloat16_test {
namespace {

using testing::expect_success;
using testing::Guarded;
using testing::in_every_order;
using testing::numbers;
using testing::slid;

using Values = std::vector<float>;

float nearest(float value) {
  return fake::from_bfloat16(fake::to_bfloat16(value));
}

// Numbers that bfloat16 has; the same for the same key.
Values halves(size_t count, std::uint64_t key) {
  Values values = numbers(count, key);
  for (float& value : values) value = nearest(value);
  return values;
}

// An array of activations in memory of the type of the kernel.
template <typename Element>
class Activations {
 public:
  explicit Activations(const Values& values) : memory_(as_elements(values)) {}
  explicit Activations(size_t count) : memory_(count) {}
  Element* data() { return memory_.data(); }
  Values values() {
    Values all;
    for (const Element element : memory_.values()) all.push_back(as_float(element));
    return all;
  }

 private:
  static float as_float(float value) { return value; }
  static float as_float(Bfloat16 value) { return fake::from_bfloat16(value.bits); }
  static std::vector<Element> as_elements(const Values& values) {
    std::vector<Element> all;
    for (const float value : values) {
      if constexpr (std::is_same_v<Element, float>) {
        all.push_back(value);
      } else {
        all.push_back({fake::to_bfloat16(value)});
      }
    }
    return all;
  }

  Guarded<Element> memory_;
};

// What a kernel leaves: activations and their gradients, and what is float for both types.
struct Results {
  std::vector<Values> activations, floats;
};

void expect_same(const Values& actual, const Values& expected, bool rounds) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const float value = rounds ? nearest(expected[i]) : expected[i];
    if (std::isnan(value) && std::isnan(actual[i])) continue;
    ASSERT_EQ(actual[i], value) << "element " << i << ", in float " << expected[i];
  }
}

// `compute`.operator()<Element>(accumulate) returns the Results of a family of kernels.
template <typename Compute>
void expect_float_rounded_once(const Compute& compute) {
  in_every_order([&] {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(accumulate);
      Results wide = compute.template operator()<float>(accumulate);
      Results narrow = compute.template operator()<Bfloat16>(accumulate);
      ASSERT_EQ(narrow.activations.size(), wide.activations.size());
      for (size_t i = 0; i < wide.activations.size(); ++i) {
        expect_same(narrow.activations[i], wide.activations[i], true);
      }
      for (size_t i = 0; i < wide.floats.size(); ++i) expect_same(narrow.floats[i], wide.floats[i], false);
    }
  });
}

// A gradient to add to, or one that nobody has written.
template <typename Element>
Activations<Element> gradient(size_t count, bool accumulate) {
  return accumulate ? Activations<Element>(halves(count, 9)) : Activations<Element>(count);
}

constexpr std::int64_t kCount = 300;

TEST(Bfloat16Kernels, give_rounds_to_nearest_even_and_keeps_a_nan) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  // Cut or rounded as a number, the second NaN is an infinity and the third one zero.
  const Values nans = {NAN, std::bit_cast<float>(0x7f800001U), std::bit_cast<float>(0x7fffffffU)};
  Values given = {1.00390625F, 1.01171875F, 1.0039064F, -1.00390625F, 3.4e38F, -kInf, 1e-40F, 0.0F};
  const std::vector<std::uint16_t> expected = {0x3f80, 0x3f82, 0x3f81, 0xbf80, 0x7f80, 0xff80, 0x0001, 0x0000};
  const size_t numbers = given.size();
  given.insert(given.end(), nans.begin(), nans.end());
  Guarded<float> wide(given), back(Values(given.size(), 0.5F));
  Guarded<Bfloat16> narrow(given.size());
  const auto count = static_cast<std::int64_t>(given.size());
  expect_success(give(nullptr, wide.data(), narrow.data(), count, false));
  expect_success(give(nullptr, narrow.data(), back.data(), count, true));
  for (size_t i = 0; i < numbers; ++i) EXPECT_EQ(narrow.data()[i].bits, expected[i]) << i;
  EXPECT_EQ(back.data()[1], 1.515625F);
  for (size_t i = numbers; i < given.size(); ++i) EXPECT_TRUE(std::isnan(back.data()[i])) << i;
}

TEST(Bfloat16Kernels, elementwise) {
  expect_float_rounded_once([]<typename E>(bool accumulate) {
    Values inputs = halves(kCount, 1);
    for (float& value : inputs) value *= 4;
    inputs[7] = NAN;
    Activations<E> a(inputs), b(halves(kCount, 2)), sum(kCount), relu(kCount), relu6(kCount), gelu(kCount);
    auto given = gradient<E>(kCount, accumulate), d_relu = gradient<E>(kCount, accumulate);
    auto d_relu6 = gradient<E>(kCount, accumulate), d_gelu = gradient<E>(kCount, accumulate);
    expect_success(add(nullptr, a.data(), b.data(), sum.data(), kCount));
    expect_success(give(nullptr, a.data(), given.data(), kCount, accumulate));
    expect_success(relu_forward(nullptr, a.data(), relu.data(), kCount));
    expect_success(relu_backward(nullptr, a.data(), b.data(), d_relu.data(), kCount, accumulate));
    expect_success(relu6_forward(nullptr, a.data(), relu6.data(), kCount));
    expect_success(relu6_backward(nullptr, a.data(), b.data(), d_relu6.data(), kCount, accumulate));
    expect_success(gelu_forward(nullptr, a.data(), gelu.data(), kCount));
    expect_success(gelu_backward(nullptr, a.data(), b.data(), d_gelu.data(), kCount, accumulate));
    return Results{.activations = {sum.values(), given.values(), relu.values(), d_relu.values(), relu6.values(),
                                   d_relu6.values(), gelu.values(), d_gelu.values()}};
  });
}

TEST(Bfloat16Kernels, bias_and_column_sums) {
  expect_float_rounded_once([]<typename E>(bool) {
    constexpr std::int64_t kRows = 300, kColumns = 33;
    Guarded<float> bias(numbers(kColumns, 1)), sums(numbers(kColumns, 2));
    Guarded<float> scratch(column_sums_scratch(kRows, kColumns) / sizeof(float));
    Activations<E> y(halves(kRows * kColumns, 3)), dy(halves(kRows * kColumns, 4));
    expect_success(add_bias(nullptr, bias.data(), y.data(), kRows, kColumns));
    expect_success(add_column_sums(nullptr, dy.data(), sums.data(), kRows, kColumns, scratch.data()));
    return Results{.activations = {y.values()}, .floats = {sums.values()}};
  });
}

TEST(Bfloat16Kernels, dropout) {
  expect_float_rounded_once([]<typename E>(bool accumulate) {
    const DropoutDraw draw{.step_key = 3, .layer = 5, .threshold = 1U << 30, .factor = 4.0F / 3};
    Activations<E> x(halves(kCount, 1));
    auto y = gradient<E>(kCount, accumulate);
    expect_success(dropout(nullptr, draw, x.data(), y.data(), 3, kCount / 3, accumulate));
    return Results{.activations = {y.values()}};
  });
}

TEST(Bfloat16Kernels, layer_norm) {
  expect_float_rounded_once([]<typename E>(bool accumulate) {
    constexpr std::int64_t kRows = 130, kWidth = 37;
    Activations<E> x(halves(kRows * kWidth, 1)), dy(halves(kRows * kWidth, 2)), y(kRows * kWidth);
    auto dx = gradient<E>(kRows * kWidth, accumulate);
    Guarded<float> gain(numbers(kWidth, 3)), shift(numbers(kWidth, 4)), mean(kRows), inverse(kRows);
    Guarded<float> dgain(numbers(kWidth, 5)), dshift(numbers(kWidth, 6));
    Guarded<float> scratch(layer_norm_scratch(kRows, kWidth) / sizeof(float));
    expect_success(layer_norm_forward(nullptr, x.data(), gain.data(), shift.data(), mean.data(), inverse.data(),
                                      y.data(), kRows, kWidth, 1e-5F));
    expect_success(layer_norm_backward(nullptr, x.data(), gain.data(), mean.data(), inverse.data(), dy.data(),
                                       dx.data(), kRows, kWidth, accumulate));
    expect_success(layer_norm_parameters(nullptr, x.data(), mean.data(), inverse.data(), dy.data(), dgain.data(),
                                         dshift.data(), kRows, kWidth, scratch.data()));
    return Results{.activations = {y.values(), dx.values()},
                   .floats = {mean.values(), inverse.values(), dgain.values(), dshift.values()}};
  });
}

void expect_batch_norm_rounded_once(bool adds, backend::Activation activation) {
  expect_float_rounded_once([=]<typename E>(bool accumulate) {
    constexpr std::int64_t kRows = 130, kWidth = 37;
    Activations<E> x(halves(kRows * kWidth, 1)), other(halves(kRows * kWidth, 7)), dy(halves(kRows * kWidth, 2));
    Activations<E> y(kRows * kWidth), evaluated(kRows * kWidth);
    auto dx = gradient<E>(kRows * kWidth, accumulate), dother = gradient<E>(kRows * kWidth, accumulate);
    Guarded<float> gain(numbers(kWidth, 3)), shift(numbers(kWidth, 4)), mean(kWidth), inverse(kWidth);
    Guarded<float> running_mean(kWidth), running_inverse(kWidth);
    Guarded<float> dgain(numbers(kWidth, 5)), dshift(numbers(kWidth, 6));
    Guarded<double> staged_mean(kWidth), staged_variance(kWidth);
    Guarded<double> scratch(batch_norm_scratch(kRows, kWidth) / sizeof(double));
    BatchNormSite<E> site{.rows = kRows,
                          .width = kWidth,
                          .x = x.data(),
                          .other = adds ? other.data() : nullptr,
                          .gain = gain.data(),
                          .shift = shift.data(),
                          .mean = mean.data(),
                          .inverse = inverse.data(),
                          .activation = activation};
    expect_success(
        batch_norm_train(nullptr, site, staged_mean.data(), staged_variance.data(), y.data(), 1e-5, scratch.data()));
    expect_success(batch_norm_backward(nullptr, site, static_cast<const E*>(y.data()), static_cast<const E*>(dy.data()),
                                       BatchNormGradients<E>{.dx = dx.data(),
                                                             .other = adds ? dother.data() : nullptr,
                                                             .adds_to_dx = accumulate,
                                                             .adds_to_other = accumulate,
                                                             .gain = dgain.data(),
                                                             .shift = dshift.data()},
                                       scratch.data()));
    site.mean = running_mean.data();
    site.inverse = running_inverse.data();
    expect_success(
        batch_norm_evaluate(nullptr, site, staged_mean.data(), staged_variance.data(), evaluated.data(), 1e-5));
    Results results{.activations = {y.values(), evaluated.values(), dx.values()},
                    .floats = {mean.values(), inverse.values(), dgain.values(), dshift.values()}};
    if (adds) results.activations.push_back(dother.values());
    return results;
  });
}

TEST(Bfloat16Kernels, batch_norm) {
  expect_batch_norm_rounded_once(false, backend::Activation::kNone);
}

TEST(Bfloat16Kernels, batch_norm_with_sum_and_relu) {
  expect_batch_norm_rounded_once(false, backend::Activation::kRelu);
  expect_batch_norm_rounded_once(true, backend::Activation::kRelu);
}

TEST(Bfloat16Kernels, causal_attention) {
  expect_float_rounded_once([]<typename E>(bool accumulate) {
    const AttentionShape shape{.samples = 2, .positions = 33, .heads = 2, .head = 5};
    const auto each = static_cast<size_t>(shape.samples * shape.positions * shape.width());
    Activations<E> qkv(halves(3 * each, 1)), dy(halves(each, 2)), y(each);
    auto dqkv = gradient<E>(3 * each, accumulate);
    Guarded<float> p(static_cast<size_t>(shape.probabilities()));
    Guarded<float> scratch(causal_attention_scratch(shape) / sizeof(float));
    expect_success(causal_attention_forward(nullptr, shape, qkv.data(), p.data(), y.data()));
    expect_success(causal_attention_backward(nullptr, shape, qkv.data(), p.data(), dy.data(), dqkv.data(), accumulate,
                                             scratch.data()));
    return Results{.activations = {y.values(), dqkv.values()}, .floats = {p.values()}};
  });
}

TEST(Bfloat16Kernels, embedding) {
  expect_float_rounded_once([]<typename E>(bool) {
    const EmbeddingShape shape{.rows = 12, .positions = 6, .vocabulary = 7, .width = 9};
    Guarded<std::int32_t> indices(std::vector<std::int32_t>{0, 6, 3, 3, -1, 2, 5, 7, 1, 1, 4, 0});
    Guarded<float> table(numbers(63, 1)), positions(numbers(54, 2)), dtable(numbers(63, 3)), dpositions(numbers(54, 4));
    Activations<E> y(108), dy(halves(108, 5));
    expect_success(embedding_forward(nullptr, shape, indices.data(), table.data(), positions.data(), y.data()));
    expect_success(embedding_backward(nullptr, shape, indices.data(), dy.data(), dtable.data(), dpositions.data()));
    return Results{.activations = {y.values()}, .floats = {dtable.values(), dpositions.values()}};
  });
}

TEST(Bfloat16Kernels, losses) {
  expect_float_rounded_once([]<typename E>(bool accumulate) {
    const ClassifierShape shape{.samples = 3, .positions = 4, .classes = 35};
    const size_t count = 12 * 35;
    Guarded<std::int32_t> classes(std::vector<std::int32_t>{0, 34, 3, 3, 17, 2, 5, 7, 1, 30, 4, 0});
    Activations<E> scores(halves(count, 1));
    auto dscores = gradient<E>(count, accumulate), dx = gradient<E>(count, accumulate);
    Guarded<float> p(count), nats(3), errors(3), target(numbers(count, 2));
    Guarded<double> scratch(softmax_cross_entropy_scratch(shape) / sizeof(double));
    expect_success(softmax_cross_entropy_forward(nullptr, shape, scores.data(), classes.data(), 0.1F, p.data(),
                                                 nats.data(), scratch.data()));
    expect_success(softmax_cross_entropy_backward(nullptr, shape, p.data(), classes.data(), 0.1F, 0.3F, dscores.data(),
                                                  accumulate));
    expect_success(mean_squared_error_forward(nullptr, scores.data(), target.data(), errors.data(), 3, 140));
    expect_success(
        mean_squared_error_backward(nullptr, scores.data(), target.data(), 0.3F, dx.data(), 420, accumulate));
    return Results{.activations = {dscores.values(), dx.values()},
                   .floats = {p.values(), nats.values(), errors.values()}};
  });
}

// Eight channels are loaded in packs, five one by one.
class Bfloat16Images : public ::testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Channels, Bfloat16Images, ::testing::Values(5, 8));

TEST_P(Bfloat16Images, pools) {
  expect_float_rounded_once([channels = GetParam()]<typename E>(bool accumulate) {
    const SlidImages images =
        slid({.samples = 2, .height = 7, .width = 6, .channels = channels, .kernel = 3, .stride = 2, .padding = 1});
    const size_t in = testing::elements_in(images), out = testing::elements_out(images);
    const auto means = static_cast<size_t>(2 * channels);
    Activations<E> x(halves(in, 1)), dy(halves(out, 2)), dmean(halves(means, 3)), y(out), mean(means);
    auto dx = gradient<E>(in, accumulate), spread = gradient<E>(in, accumulate);
    Guarded<std::int32_t> chosen(out);
    expect_success(max_pool_forward(nullptr, images, x.data(), y.data(), chosen.data()));
    expect_success(max_pool_backward(nullptr, images, dy.data(), chosen.data(), dx.data(), accumulate));
    expect_success(global_average_pool_forward(nullptr, x.data(), mean.data(), 2, 42, channels));
    expect_success(global_average_pool_backward(nullptr, dmean.data(), spread.data(), 2, 42, channels, accumulate));
    return Results{.activations = {y.values(), dx.values(), mean.values(), spread.values()}};
  });
}

TEST_P(Bfloat16Images, depthwise) {
  expect_float_rounded_once([channels = GetParam()]<typename E>(bool accumulate) {
    const SlidImages images =
        slid({.samples = 2, .height = 9, .width = 11, .channels = channels, .kernel = 3, .stride = 2, .padding = 1});
    const size_t in = testing::elements_in(images), out = testing::elements_out(images);
    const auto weights = static_cast<size_t>(9 * channels);
    Activations<E> x(halves(in, 1)), dy(halves(out, 2)), y(out);
    auto dx = gradient<E>(in, accumulate);
    Guarded<float> weight(numbers(weights, 3)), bias(numbers(static_cast<size_t>(channels), 4));
    Guarded<float> dweight(numbers(weights, 5)), scratch(depthwise_scratch(images) / sizeof(float));
    Guarded<float> weight_scratch(depthwise_weight_scratch(images) / sizeof(float));
    expect_success(depthwise_forward(nullptr, images, x.data(), weight.data(), bias.data(), y.data(), scratch.data()));
    expect_success(
        depthwise_backward_input(nullptr, images, dy.data(), weight.data(), dx.data(), accumulate, scratch.data()));
    expect_success(
        depthwise_backward_weight(nullptr, images, x.data(), dy.data(), dweight.data(), weight_scratch.data()));
    return Results{.activations = {y.values(), dx.values()}, .floats = {dweight.values()}};
  });
}

}  // namespace
}  // namespace lockstep::trainer::cuda::bfloat16_test
