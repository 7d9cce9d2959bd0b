// Synchronizers that are not all-reduce, behind the replica as it is: local SGD, an asynchronous parameter server, and
// low-rank compression with residuals. They hold the seam (core/synchronizer.h) to what it promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "tests/trainer/core/breaking.h"
#include "tests/trainer/core/gang.h"
#include "tests/trainer/sync/local_sgd.h"
#include "tests/trainer/sync/low_rank.h"
#include "tests/trainer/sync/parameter_server.h"
#include "trainer/data/generated.h"
#include "trainer/models/linear_regression.h"
#include "trainer/models/mlp.h"

namespace lockstep::trainer {
namespace {

using testing::Bytes;
using testing::GangResult;
using testing::LocalSgd;
using testing::LowRank;
using testing::ParameterServer;
using testing::Rank;
using testing::Recipe;

constexpr float kRate = 0.3F;

Recipe recipe(std::function<std::unique_ptr<core::Synchronizer>(int rank)> synchronizer = {}) {
  return {.graph = [] { return models::mlp({.batch = 4, .width = 24, .layers = 2}); },
          .source = [](core::ElementType real) { return std::make_unique<data::BlobSource>(real, 3); },
          .optimizer = {.rule = core::Sgd{.momentum = 0}, .schedule = {.peak = static_cast<double>(kRate)}},
          .options = {.seed = 3, .micro_batches = 6, .buckets = {.first_bytes = 512, .bytes = 2048}},
          .synchronizer = std::move(synchronizer)};
}

std::function<std::unique_ptr<core::Synchronizer>(int)> local_sgd(std::int64_t period) {
  return [period](int) { return std::make_unique<LocalSgd>(kRate, period); };
}

std::function<std::unique_ptr<core::Synchronizer>(int)> low_rank(size_t rank) {
  return [rank](int) { return std::make_unique<LowRank>(rank); };
}

// A line, whose state has nothing but parameters, behind a server.
Recipe line(testing::Server& server) {
  Recipe line = recipe([&server](int) { return std::make_unique<ParameterServer>(server); });
  line.graph = [] { return models::linear_regression(4); };
  line.source = [](core::ElementType real) { return std::make_unique<data::LineSource>(real, 3); };
  return line;
}

// Brings running statistics with each need(), and agrees that no step is finite.
class Fetching final : public core::Synchronizer {
 public:
  core::StateModel model() const override { return core::StateModel::kServer; }
  Status attach(const core::Attachment& to) override {
    work_.emplace(to);
    return {};
  }
  void use(comm::Communicator&) override {}
  Result<core::Share> begin(int) override { return core::Share{.end = work_->micro_batches}; }
  Status need(size_t) override {
    LOCKSTEP_CHECK_OK(work_->backend.wait(work_->backend.mark()));
    std::fill(work_->state.statistics.begin(), work_->state.statistics.end(), fetched);
    work_->state.changed();
    return {};
  }
  Status ready(size_t, core::Turn) override { return {}; }
  void computed(double, std::span<const double>, core::Turn) override {}
  Result<core::Agreement> finish(const core::Control&) override {
    return core::Agreement{.outcome = core::Agreement::Outcome::kNotFinite};
  }
  void commit(const std::function<void()>&) override {}

  double fetched = 1;

 private:
  std::optional<core::Attachment> work_;
};

// The running statistics as a program that predicts reads them.
std::vector<double> statistics_of(Rank& rank, const core::ProgramMemory& memory) {
  std::vector<double> values(rank.replica->state().statistics.size());
  rank.backend->read(values.data(), reinterpret_cast<const std::byte*>(memory.statistics),
                     values.size() * sizeof(double));
  EXPECT_TRUE(rank.backend->wait(rank.backend->mark()).ok());
  return values;
}

double mean(const std::vector<double>& losses, size_t begin, size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += losses[i];
  return sum / static_cast<double>(end - begin);
}

TEST(LocalSgd, alone_it_is_stochastic_gradient_descent) {
  const GangResult expected = train(recipe(), 1, 12), local = train(recipe(local_sgd(1)), 1, 12);
  for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(local.losses[i], expected.losses[i], 1e-6 * expected.losses[i]);
}

TEST(LocalSgd, ranks_differ_between_averages_and_are_equal_after_one) {
  const GangResult three = train(recipe(local_sgd(4)), 3, 8);
  for (size_t step = 0; step < 8; ++step) {
    const bool averaged = step % 4 == 3;
    EXPECT_EQ(three.digests[0][step] == three.digests[1][step], averaged) << "after step " << step + 1;
    EXPECT_EQ(three.digests[0][step] == three.digests[2][step], averaged) << "after step " << step + 1;
  }
}

TEST(LocalSgd, learns) {
  const GangResult two = train(recipe(local_sgd(4)), 2, 100);
  EXPECT_LT(mean(two.losses, 90, 100), 0.7 * mean(two.losses, 0, 10));
}

// What a worker computes depends on how far the other one is.
TEST(ParameterServer, workers_without_a_common_step_learn) {
  testing::Server server(kRate / 2);
  const GangResult two = train(recipe([&server](int) { return std::make_unique<ParameterServer>(server); }), 2, 400);
  EXPECT_EQ(server.pushes(), 800);
  EXPECT_LT(mean(two.losses, 300, 400), 0.8 * mean(two.losses, 0, 10));
}

TEST(ParameterServer, one_worker_is_stochastic_gradient_descent) {
  testing::Server server(kRate);
  const GangResult expected = train(recipe(), 1, 12);
  const GangResult one = train(recipe([&server](int) { return std::make_unique<ParameterServer>(server); }), 1, 12);
  for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(one.losses[i], expected.losses[i], 1e-6 * expected.losses[i]);
}

TEST(ParameterServer, an_aborted_step_pushes_nothing) {
  testing::Server server(kRate);
  comm::SingleRankCommunicator alone;
  Rank rank(recipe([&server](int) { return std::make_unique<ParameterServer>(server); }), alone);
  rank.abort = true;
  EXPECT_EQ(rank.replica->step({}).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(server.pushes(), 0);
}

TEST(ParameterServer, an_evaluation_and_a_checkpoint_are_of_the_parameters_of_the_server) {
  testing::Server server(kRate);
  comm::SingleRankCommunicator alone, also_alone;
  Rank busy(line(server), alone), idle(line(server), also_alone);
  EXPECT_EQ(idle.replica->evaluate()->loss, busy.replica->evaluate()->loss) << "before the first step";
  for (int step = 0; step < 5; ++step) ASSERT_TRUE(busy.replica->step({}).ok());
  const auto loss = busy.replica->evaluate();
  ASSERT_TRUE(loss.ok());
  EXPECT_EQ(idle.replica->evaluate()->loss, loss->loss);
  for (int step = 0; step < 5; ++step) ASSERT_TRUE(busy.replica->step({}).ok());
  for (Rank* rank : {&busy, &idle}) ASSERT_TRUE(rank->replica->complete().ok());
  for (Rank* rank : {&busy, &idle}) ASSERT_TRUE(rank->replica->state().fetch().ok());
  const auto saved = busy.replica->state().tensors(), other = idle.replica->state().tensors();
  for (size_t i = 0; i < saved.size(); ++i) {
    if (saved[i].optimizer) continue;
    EXPECT_EQ(std::memcmp(saved[i].data, other[i].data, saved[i].bytes), 0) << saved[i].name;
  }
}

TEST(Fetching, what_a_backend_derives_from_the_state_is_renewed_after_each_fetch) {
  comm::SingleRankCommunicator alone;
  auto owned = std::make_unique<Fetching>();
  Fetching& fetching = *owned;
  Rank rank(recipe([&](int) { return std::move(owned); }), alone);
  const core::ProgramMemory memory = rank.replica->prediction();
  const size_t count = rank.replica->state().statistics.size();
  fetching.fetched = 3;
  EXPECT_FALSE(rank.replica->step({})->committed);
  EXPECT_EQ(statistics_of(rank, memory), std::vector<double>(count, 3)) << "by the forward pass of a step";
  fetching.fetched = 5;
  ASSERT_TRUE(rank.replica->evaluate().ok());
  EXPECT_EQ(statistics_of(rank, memory), std::vector<double>(count, 5)) << "by an evaluation";
}

TEST(StateModels, only_a_replicated_state_is_one_that_other_ranks_continue_from) {
  testing::Server server(kRate);
  comm::SingleRankCommunicator alone;
  const auto shareable = [&](const Recipe& of) {
    Rank rank(of, alone);
    EXPECT_TRUE(rank.replica->step({}).ok());
    return rank.replica->shareable();
  };
  EXPECT_EQ(shareable(line(server)), core::Version());
  EXPECT_EQ(shareable(recipe(local_sgd(4))), core::Version());
  EXPECT_EQ(shareable(recipe(low_rank(2))).step, 1);
  EXPECT_EQ(shareable(recipe()).step, 1);
}

TEST(LocalSgd, a_step_counts_when_the_backend_has_written_the_parameters) {
  comm::SingleRankCommunicator alone;
  Recipe late = recipe(local_sgd(1));
  late.backend = "late";  // it holds work back until somebody waits for it
  Rank rank(late, alone);
  ASSERT_EQ(rank.replica->step({})->step, 1);
  EXPECT_TRUE(rank.backend->reached(rank.backend->mark()));
}

TEST(LowRank, all_ranks_are_bitwise_identical_and_learn) {
  const GangResult three = train(recipe(low_rank(2)), 3, 100);
  for (const Bytes& state : three.states) EXPECT_TRUE(state == three.states[0]);
  EXPECT_LT(mean(three.losses, 90, 100), 0.7 * mean(three.losses, 0, 10));
}

TEST(LowRank, of_full_rank_it_is_all_reduce) {
  const GangResult expected = train(recipe(), 2, 6), full = train(recipe(low_rank(24)), 2, 6);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(full.losses[i], expected.losses[i], 1e-3 * expected.losses[i]);
}

TEST(LowRank, one_factor_loses_a_part_of_the_gradient) {
  const GangResult plain = train(recipe(), 1, 1), compressed = train(recipe(low_rank(1)), 1, 1);
  EXPECT_LT(compressed.norms[0], 0.999 * plain.norms[0]);
}

// Each all-reduce of a step fails once: those of both rounds, and of the footer.
TEST(LowRank, a_step_that_broke_drops_its_residuals_and_is_the_same_when_done_again) {
  const Recipe compressed = recipe(low_rank(2));
  const Bytes expected = train(compressed, 1, 3).states[0];
  int failures = 0;
  for (int broken = 0;; ++broken, ++failures) {
    testing::Breaking communicator;
    Rank rank(compressed, communicator);
    for (int step = 0; step < 2; ++step) ASSERT_TRUE(rank.replica->step({}).ok());
    communicator.left = broken;
    const bool whole = rank.replica->step({}).ok();
    if (!whole) {
      ASSERT_TRUE(rank.replica->step({}).ok());
    }
    EXPECT_TRUE(testing::bytes_of(rank.replica->state()) == expected) << "all-reduce " << broken;
    if (whole) break;
  }
  EXPECT_EQ(failures, 12) << "8 tensors, a second round of 3 matrices, and the footer";
}

}  // namespace
}  // namespace lockstep::trainer
