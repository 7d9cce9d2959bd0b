// TF32 as the fakes of cuBLASLt and cuDNN round to it.
#include <gtest/gtest.h>

#include <cmath>
#include <variant>
#include <vector>

#include "tests/trainer/backend/bench.h"
#include "tests/trainer/backend/cuda/fake_numbers.h"
#include "tests/trainer/backend/cuda/on_fake.h"
#include "tests/trainer/backend/layers.h"

namespace lockstep::trainer::fake_tf32_test {
namespace {

using testing::Bench;
using testing::LayerCase;

TEST(FakeTf32, keeps_10_bits_of_mantissa_and_rounds_ties_away_from_zero) {
  EXPECT_EQ(cuda::fake::to_tf32(1 + 0x1.0p-10F), 1 + 0x1.0p-10F);
  EXPECT_EQ(cuda::fake::to_tf32(1 + 0x1.0p-11F), 1 + 0x1.0p-10F);
  EXPECT_EQ(cuda::fake::to_tf32(-1 - 0x1.0p-11F), -1 - 0x1.0p-10F);
  EXPECT_EQ(cuda::fake::to_tf32(1 + 0x1.8p-12F), 1);
  EXPECT_TRUE(std::isinf(cuda::fake::to_tf32(INFINITY)));
  EXPECT_TRUE(std::isnan(cuda::fake::to_tf32(NAN)));
}

// The gradient of each parameter of a layer by itself, on this backend.
std::vector<double> gradient_of(const LayerCase& layer, core::Backend& backend) {
  const core::Graph graph = layer.graph();
  return Bench(graph, backend, layer.classes).gradient();
}

// Own kernels compute in float32: TF32 is a matter of the libraries alone.
TEST(Tf32, changes_products_and_convolutions_alone) {
  auto wide = testing::fake_gpu(), rounding = testing::fake_gpu_in_tf32();
  int with = 0, without = 0;
  for (const LayerCase& layer : testing::layer_cases(5, 4, false)) {
    SCOPED_TRACE(layer.name);
    bool multiplies = false;
    const core::Graph graph = layer.graph();
    for (const core::Node& node : graph.nodes) multiplies |= std::holds_alternative<core::ops::Linear>(node.op);
    const std::vector<double> one = gradient_of(layer, *wide), other = gradient_of(layer, *rounding);
    EXPECT_EQ(one != other, multiplies);
    ++(multiplies ? with : without);
  }
  EXPECT_GT(with, 0);
  EXPECT_GT(without, 0);
}

}  // namespace
}  // namespace lockstep::trainer::fake_tf32_test
