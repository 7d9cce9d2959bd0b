// When the images of a step cross to the GPU, and what a step that fails makes of those that crossed too early.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/trainer/backend/cuda/on_fake.h"
#include "tests/trainer/core/breaking.h"
#include "tests/trainer/core/gang.h"
#include "tests/trainer/cuda/fake_cuda.h"
#include "trainer/backend/make_backend.h"
#include "trainer/data/synthetic_images.h"

namespace lockstep::trainer::images_ahead_test {
namespace {

using cuda::fake::Enqueued;
using testing::Breaking;
using testing::Rank;
using testing::Recipe;

constexpr std::int64_t kRows = 4, kPixels = 8, kClasses = 10;
constexpr size_t kUp = sizeof(core::PixelValues) + size_t{kRows * kPixels * kPixels * 3};  // bytes of a micro-batch

core::Graph classifier() {
  core::GraphBuilder build(kRows);
  const auto images = build.real_input("images", {kRows, kPixels, kPixels, 3});
  const auto pooled = core::ops::global_average_pool(build, "pool", images);
  const auto scores = core::ops::linear(build, "scores", pooled, kClasses);
  const auto classes = build.index_input("classes", {kRows});
  return build.finish(scores, core::ops::softmax_cross_entropy(build, "loss", scores, classes));
}

Recipe recipe(bool on_cuda, std::int64_t micro_batches = 1) {
  Recipe made{.graph = classifier,
              .source =
                  [](core::ElementType) {
                    return std::make_unique<data::SyntheticImages>(
                        data::SyntheticOptions{.pixels = kPixels, .classes = kClasses, .seed = 3, .most_held_out = 8});
                  },
              .optimizer = {.rule = core::Sgd{}, .schedule = {.peak = 0.1}},
              .options = {.seed = 3, .micro_batches = micro_batches, .checksums = true},
              .backend = "cpu",
              .deterministic = true};
  if (on_cuda) made.device = [](int) { return testing::fake_gpu(); };
  return made;
}

bool is_images(const Enqueued& work) {
  return work.what == "up " + std::to_string(kUp);
}
bool is_update(const Enqueued& work) {
  return work.what.starts_with("sgd_kernel");
}

// What a step enqueues.
std::vector<Enqueued> list_of_step(Rank& rank) {
  cuda::fake::begin_list();
  const auto report = rank.replica->step({});
  EXPECT_TRUE(report.ok() && report->committed);
  return cuda::fake::end_list();
}

std::ptrdiff_t copies_in(const std::vector<Enqueued>& list) {
  return std::count_if(list.begin(), list.end(), is_images);
}

std::vector<std::uint32_t> checksums_of(const Rank& rank) {
  std::vector<std::uint32_t> all;
  for (const core::ComputedBatch& batch : rank.replica->computed()) all.push_back(batch.crc32);
  return all;
}

TEST(ImagesAhead, those_of_the_next_step_cross_before_the_update_on_another_stream) {
  comm::SingleRankCommunicator alone;
  Rank rank(recipe(true), alone);
  EXPECT_EQ(copies_in(list_of_step(rank)), 2) << "its own, and those of the next step";
  for (int step = 0; step < 3; ++step) {
    const std::vector<Enqueued> list = list_of_step(rank);
    EXPECT_EQ(copies_in(list), 1);
    const auto copy = std::find_if(list.begin(), list.end(), is_images);
    const auto update = std::find_if(list.begin(), list.end(), is_update);
    ASSERT_TRUE(copy != list.end() && update != list.end());
    EXPECT_LT(copy, update);
    for (const Enqueued& work : list) EXPECT_EQ(work.stream == copy->stream, is_images(work)) << work.what;
  }
}

TEST(ImagesAhead, each_micro_batch_crosses_once) {
  comm::SingleRankCommunicator alone;
  Rank rank(recipe(true, 5), alone);
  EXPECT_EQ(copies_in(list_of_step(rank)), 6);
  EXPECT_EQ(copies_in(list_of_step(rank)), 5);
}

TEST(ImagesAhead, the_first_layer_reads_what_it_reads_on_the_cpu) {
  for (const std::int64_t micro_batches : {1, 5}) {
    comm::SingleRankCommunicator alone, also_alone;
    Rank on_cuda(recipe(true, micro_batches), alone), on_cpu(recipe(false, micro_batches), also_alone);
    for (int step = 0; step < 5; ++step) {
      ASSERT_TRUE(on_cuda.replica->step({}).ok() && on_cpu.replica->step({}).ok());
      EXPECT_EQ(checksums_of(on_cuda), checksums_of(on_cpu)) << "step " << step;
      if (step != 2) continue;
      EXPECT_TRUE(on_cuda.replica->evaluate().ok() && on_cpu.replica->evaluate().ok());
    }
  }
}

// All-reduces of a step.
int operations_of(const Recipe& of) {
  Breaking communicator;
  Rank rank(of, communicator);
  communicator.left = 1000;
  EXPECT_TRUE(rank.replica->step({}).ok());
  return 1000 - communicator.left;
}

TEST(ImagesAhead, a_step_that_fails_afterwards_loses_and_repeats_no_sample) {
  const Recipe of = recipe(true, 3);
  const int operations = operations_of(of);
  for (const bool reconnects : {false, true}) {
    Breaking communicator, other;
    comm::SingleRankCommunicator alone;
    Rank rank(of, communicator), undisturbed(of, alone);
    for (Rank* each : {&rank, &undisturbed}) ASSERT_TRUE(each->replica->step({}).ok());
    communicator.left = operations - 1;  // the last one fails
    cuda::fake::begin_list();
    EXPECT_FALSE(rank.replica->step({}).ok());
    EXPECT_EQ(copies_in(cuda::fake::end_list()), 3) << "two of its own, and the first of the next step";
    if (reconnects) rank.replica->use(other, 2);
    for (int step = 1; step < 4; ++step) {
      for (Rank* each : {&rank, &undisturbed}) ASSERT_TRUE(each->replica->step({}).ok());
      EXPECT_EQ(checksums_of(rank), checksums_of(undisturbed)) << "step " << step;
      EXPECT_EQ(testing::digest_of(rank.replica->state()), testing::digest_of(undisturbed.replica->state()));
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer::images_ahead_test
