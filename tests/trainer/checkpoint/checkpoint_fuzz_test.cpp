// The fuzz target on small random changes of a manifest and of the head of a safetensors file.
#include <gtest/gtest.h>

#include "tests/fuzz/on_small_changes.h"
#include "tests/trainer/checkpoint/small_model.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/safetensors.h"

extern "C" int checkpoint_fuzz(const std::uint8_t* data, std::size_t size);

namespace lockstep::trainer::checkpoint {
namespace {

TEST(CheckpointFuzz, files_with_small_changes_do_no_harm) {
  const SmallModel model = SmallModel::of(1);
  const Manifest manifest{.step = 8,
                          .generation = 2,
                          .job_uid = "uid",
                          .identity = {.model = "small", .model_hash = "h1", .seed = 7, .numerics_id = "cpu"},
                          .files = {{kModelFile, 60, std::string(64, 'a')}},
                          .metadata = R"({"loss":1.5})"};
  run_on_small_changes(checkpoint_fuzz,
                       {safetensors_header(model.state().parameters).value(), encode(manifest).value(), "step-8.g2"},
                       all_bytes(), 40'000);
}

}  // namespace
}  // namespace lockstep::trainer::checkpoint
