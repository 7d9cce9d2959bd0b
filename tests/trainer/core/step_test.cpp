#include "trainer/core/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "tests/sanitizer.h"
#include "tests/trainer/backend/heads.h"
#include "tests/trainer/core/breaking.h"
#include "tests/trainer/core/failing_product.h"
#include "tests/trainer/core/gang.h"
#include "tests/trainer/core/made_text.h"
#include "trainer/core/random.h"
#include "trainer/data/generated.h"
#include "trainer/data/text_source.h"
#include "trainer/models/char_transformer.h"
#include "trainer/models/linear_regression.h"
#include "trainer/models/mlp.h"

namespace lockstep::trainer {
namespace {

constexpr int kFifty = sanitizer::steps(50);

using testing::Breaking;
using testing::Bytes;
using testing::bytes_of;
using testing::GangResult;
using testing::Rank;
using testing::Recipe;
using testing::train;

// Six micro-batches, so that they are shared out evenly among 1, 2 and 3 ranks and unevenly among 4 and 5.
Recipe mlp_recipe(bool deterministic) {
  return {.graph = [] { return models::mlp({.batch = 4, .width = 24, .layers = 2, .dropout = 0.1}); },
          .source = [](core::ElementType real) { return std::make_unique<data::BlobSource>(real, 3); },
          .optimizer = {.rule = core::AdamW{},
                        .schedule = {.peak = 3e-3, .warmup_steps = 5, .decay = core::CosineDecay{.total_steps = 50}},
                        .matrices = {.weight_decay = 0.01}},
          .options = {.seed = 3, .micro_batches = 6, .clip_norm = 0.5, .buckets = {.first_bytes = 512, .bytes = 2048}},
          .deterministic = deterministic};
}

Recipe transformer_recipe(bool deterministic) {
  Recipe recipe = mlp_recipe(deterministic);
  recipe.graph = [] {
    return models::char_transformer(
        {.batch = 2, .vocabulary = 26, .context = 16, .layers = 2, .width = 32, .heads = 2, .dropout = 0.05});
  };
  recipe.source = [](core::ElementType) {
    static const data::Text text = testing::made_text(5000);
    return std::make_unique<data::TextSource>(data::TextSource::create(text, 16, 3, 0).value());
  };
  return recipe;
}

TEST(Deterministic, the_state_is_bitwise_identical_for_every_number_of_ranks) {
  for (const Recipe& recipe : {mlp_recipe(true), transformer_recipe(true)}) {
    GangResult one = train(recipe, 1, sanitizer::steps(20));
    for (int ranks : {2, 3, 4, 7}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks");
      GangResult many = train(recipe, ranks, sanitizer::steps(20));
      EXPECT_EQ(many.losses, one.losses);
      EXPECT_EQ(many.norms, one.norms);
      EXPECT_EQ(many.held_out_loss, one.held_out_loss);
      for (const Bytes& state : many.states) EXPECT_TRUE(state == one.states[0]);
      for (const auto& digests : many.digests) EXPECT_EQ(digests, one.digests[0]) << "after some step";
    }
  }
}

TEST(Deterministic, lars_is_bitwise_identical_for_every_number_of_ranks) {
  Recipe recipe = mlp_recipe(true);
  recipe.optimizer.rule = core::Lars{};
  recipe.optimizer.matrices.trust_ratio = true;
  recipe.optimizer.schedule.peak = 1;
  const Bytes one = train(recipe, 1, 5).states[0];
  for (int ranks : {2, 3, 7}) EXPECT_TRUE(train(recipe, ranks, 5).states[0] == one) << ranks << " ranks";
}

TEST(Deterministic, a_restart_from_any_step_at_any_size_changes_no_bit) {
  Recipe recipe = mlp_recipe(true);
  Bytes whole = train(recipe, 1, 12).states[0];
  for (int stop : {1, 5, 11}) {
    Bytes until = train(recipe, 2, stop).states[0];
    EXPECT_TRUE(train(recipe, 3, 12 - stop, until).states[0] == whole) << "restarted after step " << stop;
  }
}

TEST(Deterministic, another_global_batch_continues_with_the_next_sample) {
  Recipe recipe = mlp_recipe(true);
  const Bytes until = train(recipe, 1, 3).states[0];
  recipe.options.micro_batches = 4;
  comm::SingleRankCommunicator alone;
  Rank rank(recipe, alone, until);
  EXPECT_EQ(rank.replica->state().samples, 3 * 6 * 4);
  ASSERT_TRUE(rank.replica->step({}).ok());
  EXPECT_EQ(rank.replica->state().samples, 3 * 6 * 4 + 4 * 4);
  EXPECT_EQ(rank.replica->state().step, 4);
}

TEST(Deterministic, ref_is_deterministic_too) {
  Recipe recipe = mlp_recipe(true);
  recipe.backend = "ref";
  EXPECT_TRUE(train(recipe, 1, 5).states[0] == train(recipe, 3, 5).states[0]);
}

TEST(Deterministic, rounding_costs_no_accuracy) {
  GangResult rounded = train(transformer_recipe(true), 1, sanitizer::steps(20)),
             plain = train(transformer_recipe(false), 1, sanitizer::steps(20));
  for (size_t i = 0; i < rounded.losses.size(); ++i) {
    EXPECT_NEAR(rounded.losses[i], plain.losses[i], 1e-5 * plain.losses[i]) << "step " << i;
  }
}

TEST(Plain, losses_are_those_of_one_rank_for_two_and_four_ranks) {
  for (const Recipe& recipe : {mlp_recipe(false), transformer_recipe(false)}) {
    GangResult one = train(recipe, 1, kFifty);
    for (int ranks : {2, 4}) {
      GangResult many = train(recipe, ranks, kFifty);
      double worst = 0;
      for (size_t i = 0; i < one.losses.size(); ++i) {
        worst = std::max(worst, std::fabs(many.losses[i] - one.losses[i]) / one.losses[i]);
      }
      std::printf("%d ranks: largest relative difference of a loss %.1e\n", ranks, worst);
      EXPECT_LE(worst, 1e-5);
      for (const Bytes& state : many.states) EXPECT_TRUE(state == many.states[0]);
      EXPECT_EQ(many.digests[0].size(), static_cast<size_t>(kFifty));
      for (const auto& digests : many.digests) EXPECT_EQ(digests, many.digests[0]) << "after some step";
    }
    if (!sanitizer::kOn) {
      EXPECT_LT(one.losses.back(), one.losses.front());
    }
  }
}

TEST(Plain, a_rank_without_a_micro_batch_adds_zeros) {
  constexpr int kRanks = 7, kSteps = 3;  // of the second step on, an arena has the gradients of the one before
  const GangResult one = train(mlp_recipe(false), 1, kSteps), many = train(mlp_recipe(false), kRanks, kSteps);
  for (size_t i = 0; i < kSteps; ++i) EXPECT_NEAR(many.losses[i], one.losses[i], 1e-5 * one.losses[i]) << "step " << i;
}

// Parameters and momentum, which a state begins with.
std::vector<double> learnt(const Bytes& state, const core::Graph& graph, core::ElementType real) {
  size_t count = 0;
  for (core::TensorId id : graph.with_role(core::Role::kParameter)) {
    count += 2 * static_cast<size_t>(core::count_of(graph.tensor(id).shape));
  }
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = core::real_at(state.data(), real, i);
  return values;
}

TEST(Plain, several_ranks_do_what_one_does_with_all_samples_in_one_micro_batch) {
  const auto recipe = [](std::int64_t batch, std::int64_t micro_batches, const char* backend) {
    Recipe made = transformer_recipe(false);
    made.graph = [batch] {
      return models::char_transformer(
          {.batch = batch, .vocabulary = 26, .context = 16, .layers = 2, .width = 32, .heads = 2, .dropout = 0.05});
    };
    made.optimizer = {.rule = core::Sgd{}, .schedule = {.peak = 0.1}};
    made.options.micro_batches = micro_batches;
    made.options.clip_norm = 0;  // it would hide a gradient of another scale
    made.backend = backend;
    return made;
  };
  struct Tolerance {
    const char* backend;
    core::ElementType real;
    double relative;
  };
  for (const Tolerance& of :
       {Tolerance{"ref", core::ElementType::kFloat64, 1e-12}, Tolerance{"cpu", core::ElementType::kFloat32, 1e-5}}) {
    const core::Graph graph = recipe(2, 1, of.backend).graph();
    const auto one = learnt(train(recipe(12, 1, of.backend), 1, 5).states[0], graph, of.real);
    double norm = 0;
    for (double value : one) norm += value * value;
    for (int ranks : sanitizer::kThreads ? std::vector{2} : std::vector{2, 3, 6}) {
      const auto many = learnt(train(recipe(12 / ranks, ranks, of.backend), ranks, 5).states[0], graph, of.real);
      double difference = 0;
      for (size_t i = 0; i < one.size(); ++i) difference += (many[i] - one[i]) * (many[i] - one[i]);
      difference = std::sqrt(difference / norm);
      std::printf("%s, %d ranks: relative difference %.1e\n", of.backend, ranks, difference);
      EXPECT_LE(difference, of.relative) << of.backend << ", " << ranks << " ranks";
    }
  }
}

TEST(Plain, cpu_follows_ref) {
  Recipe recipe = transformer_recipe(false);
  GangResult cpu = train(recipe, 1, sanitizer::steps(10));
  recipe.backend = "ref";
  GangResult ref = train(recipe, 1, sanitizer::steps(10));
  for (size_t i = 0; i < cpu.losses.size(); ++i) EXPECT_NEAR(cpu.losses[i], ref.losses[i], 1e-4 * ref.losses[i]);
}

// Random samples for the graph of tests/trainer/backend/heads.h.
class Noise final : public data::RowSource {
 public:
  explicit Noise(core::ElementType real)
      : RowSource({5 * core::size_of(real), testing::kClassesOfHeads * core::size_of(real), sizeof(std::int32_t)}),
        real_(real) {}
  void write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const override {
    const std::uint64_t key = core::derive(7, static_cast<std::uint64_t>(position));
    for (size_t i = 0; i < 5 + testing::kClassesOfHeads; ++i) {
      const size_t width = i < 5 ? 5 : testing::kClassesOfHeads;
      const size_t at = static_cast<size_t>(row) * width + (i < 5 ? i : i - 5);
      const auto value = static_cast<float>(core::normal(key, i));
      void* to = inputs[i < 5 ? 0 : 1];
      if (real_ == core::ElementType::kFloat32) {
        static_cast<float*>(to)[at] = value;
      } else {
        static_cast<double*>(to)[at] = value;
      }
    }
    static_cast<std::int32_t*>(inputs[2])[row] = static_cast<std::int32_t>(position % testing::kClassesOfHeads);
  }
  std::int64_t held_out() const override { return 4; }
  void write_held_out(std::int64_t index, std::int64_t row, std::span<void* const> inputs) const override {
    write(1000000 + index, row, inputs);
  }

 private:
  core::ElementType real_;
};

TEST(Plain, outputs_that_no_loss_reads_change_no_bit_of_the_state) {
  auto recipe = [](const testing::Heads& heads, const std::string& backend) {
    return Recipe{.graph = [heads] { return testing::with_heads(heads); },
                  .source = [](core::ElementType real) { return std::make_unique<Noise>(real); },
                  .optimizer = {.schedule = {.peak = 0.05, .decay = core::CosineDecay{.total_steps = 9}}},
                  .options = {.seed = 3, .micro_batches = 2},
                  .backend = backend};
  };
  const GangResult ref = train(recipe({}, "ref"), 1, 5), cpu = train(recipe({}, "cpu"), 1, 5);
  for (const testing::Heads& heads : testing::kHeads) {
    EXPECT_TRUE(train(recipe(heads, "ref"), 1, 5).states == ref.states);
    EXPECT_TRUE(train(recipe(heads, "cpu"), 1, 5).states == cpu.states);
  }
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(cpu.losses[i], ref.losses[i], 1e-5 * ref.losses[i]);
}

TEST(RanksAgree, one_bit_of_one_rank_is_enough_for_all_to_say_no) {
  auto ring = comm::make_in_process_ring(3, true).value();
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      Rank rank(mlp_recipe(true), *ring[r]);
      core::State& state = rank.replica->state();
      ASSERT_TRUE(state.fetch().ok());
      for (const core::StateTensor& tensor : state.tensors()) {
        std::byte& last = tensor.data[tensor.bytes - 1];
        EXPECT_TRUE(rank.replica->ranks_agree().value());
        if (r == 1) last ^= std::byte{1};
        ASSERT_TRUE(state.written().ok());
        EXPECT_FALSE(rank.replica->ranks_agree().value()) << tensor.name;
        if (r == 1) last ^= std::byte{1};
        ASSERT_TRUE(state.written().ok());
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Training, linear_regression_recovers_the_line) {
  Recipe recipe{
      .graph = [] { return models::linear_regression(8); },
      .source = [](core::ElementType real) { return std::make_unique<data::LineSource>(real, 9); },
      .optimizer = {.schedule = {.peak = 0.05, .decay = core::CosineDecay{.total_steps = 300, .final_share = 0.01}}},
      .options = {.seed = 9, .micro_batches = 4}};
  comm::SingleRankCommunicator alone;
  Rank rank(recipe, alone);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(rank.replica->step({}).ok());
  ASSERT_TRUE(rank.replica->state().fetch().ok());
  for (const core::StateTensor& tensor : rank.replica->state().tensors()) {
    float value = 0;
    if (tensor.bytes == sizeof(float)) std::memcpy(&value, tensor.data, sizeof(value));
    if (tensor.name == "line.weight") {
      EXPECT_NEAR(value, 3, 0.01);
    } else if (tensor.name == "line.bias") {
      EXPECT_NEAR(value, 0, 0.01);
    }
  }
  EXPECT_NEAR(rank.replica->evaluate().value().loss, 0.01, 0.002) << "the variance of the noise";
}

TEST(Commit, a_step_that_broke_changes_nothing_and_repeats_the_same) {
  for (bool deterministic : {true, false}) {
    Recipe recipe = mlp_recipe(deterministic);
    Bytes expected = train(recipe, 1, 3).states[0];
    for (int broken = 0; broken < 4; ++broken) {
      Breaking communicator;
      Rank rank(recipe, communicator);
      ASSERT_TRUE(rank.replica->step({}).ok());
      ASSERT_TRUE(rank.replica->step({}).ok());
      Bytes before = bytes_of(rank.replica->state());
      communicator.left = broken;
      auto report = rank.replica->step({});
      ASSERT_FALSE(report.ok());
      EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
      EXPECT_TRUE(bytes_of(rank.replica->state()) == before) << "operation " << broken;
      ASSERT_TRUE(rank.replica->step({}).ok());
      EXPECT_TRUE(bytes_of(rank.replica->state()) == expected) << "operation " << broken;
    }
  }
}

TEST(Commit, a_matrix_product_that_failed_fails_the_step_and_changes_nothing) {
  Recipe recipe = transformer_recipe(true);
  recipe.options.micro_batches = 2;
  comm::SingleRankCommunicator alone;
  Rank undisturbed(recipe, alone);
  ASSERT_TRUE(undisturbed.replica->step({}).ok());
  testing::products_until_failure = 1 << 20;
  ASSERT_TRUE(undisturbed.replica->step({}).ok());
  const int products = (1 << 20) - testing::products_until_failure;
  const Bytes expected = bytes_of(undisturbed.replica->state());

  Rank rank(recipe, alone);
  ASSERT_TRUE(rank.replica->step({}).ok());
  const Bytes before = bytes_of(rank.replica->state());
  for (int product = 0; product < products; ++product) {
    testing::products_until_failure = product;
    auto report = rank.replica->step({});
    ASSERT_FALSE(report.ok()) << "product " << product << " of " << products;
    EXPECT_EQ(report.error().code, ErrorCode::kInternal);
    EXPECT_THAT(report.error().message,
                ::testing::MatchesRegex("layer '.+': oneDNN could not multiply matrices \\(runtime_error\\)"));
    EXPECT_TRUE(bytes_of(rank.replica->state()) == before) << "product " << product;
  }
  testing::products_until_failure = 0;
  EXPECT_FALSE(rank.replica->evaluate().ok());
  ASSERT_TRUE(rank.replica->step({}).ok());
  EXPECT_TRUE(bytes_of(rank.replica->state()) == expected);
}

TEST(Commit, an_abort_changes_nothing) {
  comm::SingleRankCommunicator alone;
  Rank rank(mlp_recipe(true), alone);
  Bytes before = bytes_of(rank.replica->state());
  rank.abort = true;
  EXPECT_EQ(rank.replica->step({}).error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(bytes_of(rank.replica->state()) == before);
}

TEST(Commit, running_statistics_change_only_with_the_step) {
  comm::SingleRankCommunicator alone;
  Rank rank(mlp_recipe(true), alone);
  std::vector<double> before = rank.replica->state().statistics;
  ASSERT_TRUE(rank.replica->evaluate().ok());
  EXPECT_EQ(rank.replica->state().statistics, before);
  ASSERT_TRUE(rank.replica->step({}).ok());
  EXPECT_NE(rank.replica->state().statistics, before);
}

TEST(Control, a_wish_of_one_rank_is_known_to_all_after_the_same_step) {
  auto ring = comm::make_in_process_ring(3, true).value();
  std::vector<std::int64_t> stopped(3), checkpoint(3), leaving(3);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      Rank rank(mlp_recipe(true), *ring[r]);
      for (std::int64_t step = 1; stopped[r] == 0 && step < 20; ++step) {
        auto report = rank.replica->step(
            {.stop = r == 1 && step == 4, .checkpoint = r == 2 && step == 2, .leave = r != 0 && step == 3});
        ASSERT_TRUE(report.ok());
        EXPECT_EQ(report->control.leave, step == 3);
        leaving[r] += report->leaving;
        if (report->control.checkpoint) checkpoint[r] = step;
        if (report->control.stop) stopped[r] = step;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(stopped, std::vector<std::int64_t>(3, 4));
  EXPECT_EQ(checkpoint, std::vector<std::int64_t>(3, 2));
  EXPECT_EQ(leaving, std::vector<std::int64_t>(3, 2)) << "two ranks, in one step";
}

// Samples of a line whose values explode at one position.
class Exploding final : public data::RowSource {
 public:
  Exploding(std::int64_t at, float value) : RowSource({sizeof value, sizeof value}), at_(at), value_(value) {}
  void write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const override {
    static_cast<float*>(inputs[0])[row] = 1;
    static_cast<float*>(inputs[1])[row] = position == at_ ? value_ : 2;
  }
  std::int64_t held_out() const override { return 0; }
  void write_held_out(std::int64_t, std::int64_t, std::span<void* const>) const override {}

 private:
  std::int64_t at_;
  float value_;
};

Recipe exploding_recipe(float value) {
  return {.graph = [] { return models::linear_regression(2); },
          .source = [value](core::ElementType) { return std::make_unique<Exploding>(9, value); },  // in the third step
          .optimizer = {.schedule = {.peak = 1e-9}},
          .options = {.seed = 1, .micro_batches = 2},
          .deterministic = true};
}

TEST(Overflow, a_step_whose_sums_overflow_is_recomputed_with_a_lower_exponent) {
  Recipe recipe = exploding_recipe(1e12F);
  GangResult one = train(recipe, 1, 5), two = train(recipe, 2, 5);
  EXPECT_GT(one.redone, 0);
  EXPECT_EQ(one.losses, two.losses);
  EXPECT_TRUE(one.states[0] == two.states[0]);
  EXPECT_NEAR(one.losses[2], 1e24 / 4, 1e18);
}

TEST(Diverged, a_loss_that_is_not_finite_is_reported_and_commits_nothing) {
  comm::SingleRankCommunicator alone;
  Rank rank(exploding_recipe(std::numeric_limits<float>::infinity()), alone);
  ASSERT_TRUE(rank.replica->step({})->committed);
  ASSERT_TRUE(rank.replica->step({})->committed);
  Bytes before = bytes_of(rank.replica->state());
  auto report = rank.replica->step({});
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->committed);
  EXPECT_TRUE(bytes_of(rank.replica->state()) == before);
}

TEST(Replica, refuses_more_micro_batches_than_can_be_summed) {
  comm::SingleRankCommunicator alone;
  Recipe recipe = mlp_recipe(true);
  recipe.options.micro_batches = 5000;
  auto backend = backend::make_backend("cpu", 1).value();
  core::Graph graph = recipe.graph();
  auto source = recipe.source(backend->real());
  std::atomic<bool> abort{false};
  sync::AllReduce all_reduce({.deterministic = true});
  auto replica =
      core::Replica::create({graph, *backend, recipe.optimizer, *source, all_reduce, alone}, recipe.options, abort);
  ASSERT_FALSE(replica.ok());
  EXPECT_EQ(replica.error().message, "the global batch must have between 1 and 4096 micro-batches; this one has 5000");
}

}  // namespace
}  // namespace lockstep::trainer
