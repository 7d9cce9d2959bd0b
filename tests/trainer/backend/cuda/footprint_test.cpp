// The memory of a fake GPU that a replica takes.
#include <gtest/gtest.h>

#include <cstddef>

#include "tests/trainer/backend/cuda/recipes.h"
#include "tests/trainer/cuda/fake_cuda.h"
#include "trainer/core/footprint.h"

namespace lockstep::trainer::footprint_test {
namespace {

using testing::mlp;
using testing::Recipe;
using testing::resnet18;
using testing::transformer;

// Room is looked for before any of it is taken. Scratch grows when kernels run. The ring of images comes on top.
TEST(TrainingOnCuda, a_replica_takes_the_memory_that_was_foretold) {
  Recipe recomputes = resnet18(true);
  recomputes.options.recompute = core::Recompute::kNorms;
  for (const Recipe& recipe : {mlp(true, false), transformer(true, false), resnet18(true), recomputes}) {
    const size_t nothing = fake_cuda_device_bytes();
    const auto probe = testing::gpu();
    const size_t of_backend = fake_cuda_device_bytes() - nothing;
    const core::Graph graph = recipe.graph();
    const size_t foretold = core::replica_bytes(graph, *probe, recipe.optimizer, recipe.options.recompute).value();
    comm::SingleRankCommunicator alone;
    const testing::Rank rank(recipe, alone);
    const size_t taken = fake_cuda_device_bytes() - nothing - 2 * of_backend;
    constexpr size_t kScratch = size_t{128} << 10, kImages = 3 * (size_t{8 * 32 * 32 * 3} + sizeof(core::PixelValues));
    EXPECT_GE(taken, foretold);
    EXPECT_LE(taken, foretold + kScratch + kImages);
  }
}

}  // namespace
}  // namespace lockstep::trainer::footprint_test
