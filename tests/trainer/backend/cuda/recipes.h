// Tasks on the CUDA backend under test or, to compare it with, on `cpu`.
#pragma once

#include <cstdint>
#include <memory>

#include "tests/trainer/backend/cuda/under_test.h"
#include "tests/trainer/core/gang.h"
#include "tests/trainer/core/made_text.h"
#include "trainer/data/generated.h"
#include "trainer/data/synthetic_images.h"
#include "trainer/data/text_source.h"
#include "trainer/models/char_transformer.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet.h"

namespace lockstep::trainer::testing {

inline Recipe mlp(bool on_cuda, bool deterministic) {
  Recipe recipe{
      .graph = [] { return models::mlp({.batch = 4, .width = 24, .layers = 2, .dropout = 0.1}); },
      .source = [](core::ElementType real) { return std::make_unique<data::BlobSource>(real, 3); },
      .optimizer = {.rule = core::AdamW{},
                    .schedule = {.peak = 3e-3, .warmup_steps = 5},
                    .matrices = {.weight_decay = 0.01}},
      .options = {.seed = 3, .micro_batches = 6, .clip_norm = 0.5, .buckets = {.first_bytes = 512, .bytes = 2048}},
      .backend = "cpu",
      .deterministic = deterministic};
  if (on_cuda) recipe.device = [](int) { return gpu(); };
  return recipe;
}

inline Recipe transformer(bool on_cuda, bool deterministic, std::int64_t width = 32) {
  Recipe recipe = mlp(on_cuda, deterministic);
  recipe.graph = [width] {
    return models::char_transformer({.batch = 2,
                                     .vocabulary = 26,
                                     .context = 16,
                                     .layers = 2,
                                     .width = width,
                                     .heads = width / 16,
                                     .dropout = 0.05});
  };
  recipe.source = [](core::ElementType) {
    static const data::Text text = made_text(5800);
    return std::make_unique<data::TextSource>(data::TextSource::create(text, 16, 3, 0).value());
  };
  return recipe;
}

// A quarter of the channels.
inline Recipe resnet18(bool on_cuda) {
  constexpr std::int64_t kPixels = 32, kClasses = 10;
  Recipe recipe{.graph =
                    [] {
                      return models::resnet18({.batch = 8,
                                               .pixels = kPixels,
                                               .classes = kClasses,
                                               .width = 16,
                                               .stem = models::ResNetOptions::Stem::kCifar});
                    },
                .source =
                    [](core::ElementType) {
                      return std::make_unique<data::SyntheticImages>(data::SyntheticOptions{
                          .pixels = kPixels, .classes = kClasses, .seed = 3, .most_held_out = 8});
                    },
                .optimizer = {.rule = core::Sgd{}, .schedule = {.peak = 0.001, .warmup_steps = 5}},
                .options = {.seed = 3, .micro_batches = 1},
                .backend = "cpu"};
  if (on_cuda) recipe.device = [](int) { return gpu(); };
  return recipe;
}

}  // namespace lockstep::trainer::testing
