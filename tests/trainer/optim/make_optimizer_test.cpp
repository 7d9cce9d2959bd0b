#include "trainer/optim/make_optimizer.h"

#include <gtest/gtest.h>

namespace lockstep::trainer::optim {
namespace {

TEST(MakeOptimizer, describes_the_rule_as_checkpoints_have_it) {
  EXPECT_EQ(describe(*make_optimizer({.rule = "sgd"})), "sgd momentum=0.9 weight-decay=0");
  EXPECT_EQ(describe(*make_optimizer({.rule = "sgd", .weight_decay = 1e-4, .momentum = 0.5})),
            "sgd momentum=0.5 weight-decay=0.0001");
  EXPECT_EQ(describe(*make_optimizer({.rule = "adamw", .weight_decay = 0.01})),
            "adamw beta1=0.9 beta2=0.99 epsilon=1e-08 weight-decay=0.01");
  EXPECT_EQ(describe(*make_optimizer({.rule = "sgd", .nesterov = true})), "sgd momentum=0.9 nesterov weight-decay=0");
  EXPECT_EQ(describe(*make_optimizer({.rule = "lars", .weight_decay = 1e-4})),
            "lars momentum=0.9 trust-coefficient=0.001 weight-decay=0.0001");
}

TEST(MakeOptimizer, decays_matrices_and_falls_to_a_tenth_at_the_last_step) {
  auto made = make_optimizer({.weight_decay = 0.01, .learning_rate = 2, .warmup_steps = 2, .total_steps = 12});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->matrices.weight_decay, 0.01);
  EXPECT_EQ(made->vectors.weight_decay, 0);
  EXPECT_DOUBLE_EQ(learning_rate(made->schedule, 0), 1);
  EXPECT_NEAR(learning_rate(made->schedule, 12), 0.2, 1e-12);
}

TEST(MakeOptimizer, gives_a_trust_ratio_to_the_matrices_of_lars_alone) {
  const core::Optimizer lars = *make_optimizer({.rule = "lars", .momentum = 0.8, .trust_coefficient = 0.02});
  EXPECT_TRUE(lars.matrices.trust_ratio);
  EXPECT_FALSE(lars.vectors.trust_ratio);
  EXPECT_EQ(std::get<core::Lars>(lars.rule).momentum, 0.8);
  EXPECT_EQ(std::get<core::Lars>(lars.rule).trust_coefficient, 0.02);
  EXPECT_FALSE(make_optimizer({.rule = "sgd"})->matrices.trust_ratio);
}

TEST(MakeOptimizer, has_every_schedule_by_its_name) {
  OptimizerOptions options{.learning_rate = 1, .warmup_steps = 2, .total_steps = 12};
  options.schedule = "constant";
  EXPECT_EQ(learning_rate(make_optimizer(options)->schedule, 12), 1);
  options.schedule = "polynomial";
  EXPECT_DOUBLE_EQ(learning_rate(make_optimizer(options)->schedule, 7), 0.25) << "a square by default";
  options.power = 1;
  EXPECT_DOUBLE_EQ(learning_rate(make_optimizer(options)->schedule, 7), 0.5);
  options.power.reset();
  options.schedule = "step";
  options.milestones = {5, 9};
  EXPECT_DOUBLE_EQ(learning_rate(make_optimizer(options)->schedule, 9), 0.01) << "a tenth by default";
  options.decay_factor = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate(make_optimizer(options)->schedule, 9), 0.25);
}

TEST(MakeOptimizer, refuses_what_it_cannot_make) {
  struct Case {
    OptimizerOptions options;
    const char* message;
  };
  const Case cases[] = {
      {{.rule = "lion"}, "there is no --optimizer=lion; choose one of adamw, lars, sgd"},
      {{.rule = "adamw", .momentum = 0.5}, "--momentum needs --optimizer=sgd or lars"},
      {{.rule = "lars", .nesterov = true}, "--nesterov needs --optimizer=sgd"},
      {{.rule = "sgd", .momentum = 0, .nesterov = true}, "--nesterov needs a --momentum above 0"},
      {{.rule = "sgd", .trust_coefficient = 0.1}, "--trust-coefficient needs --optimizer=lars"},
      {{.schedule = "triangle"}, "there is no --schedule=triangle; choose one of constant, cosine, polynomial, step"},
      {{.milestones = {3}}, "--milestones needs --schedule=step"},
      {{.decay_factor = 0.5}, "--decay-factor needs --schedule=step"},
      {{.power = 3}, "--power needs --schedule=polynomial"},
      {{.schedule = "step"}, "--schedule=step needs --milestones"},
      {{.schedule = "polynomial", .power = 0}, "--power must be at least 1"},
  };
  for (const Case& c : cases) {
    auto made = make_optimizer(c.options);
    ASSERT_FALSE(made.ok()) << c.message;
    EXPECT_EQ(made.error().message, c.message);
    EXPECT_EQ(made.error().code, ErrorCode::kInvalid);
  }
}

}  // namespace
}  // namespace lockstep::trainer::optim
