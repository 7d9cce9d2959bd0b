#include "trainer/optim/make_optimizer.h"

#include <fmt/format.h>

namespace lockstep::trainer::optim {

namespace {

std::string text(const core::Sgd& rule) {
  return fmt::format("sgd momentum={}", rule.momentum);
}

std::string text(const core::AdamW& rule) {
  return fmt::format("adamw beta1={} beta2={} epsilon={}", rule.beta1, rule.beta2, rule.epsilon);
}

}  // namespace

const std::vector<std::string>& rule_names() {
  static const std::vector<std::string> names = {"adamw", "sgd"};
  return names;
}

Result<core::Optimizer> make_optimizer(const OptimizerOptions& options) {
  core::Optimizer made{.schedule = {.peak = options.learning_rate,
                                    .warmup_steps = options.warmup_steps,
                                    .decay = core::CosineDecay{.total_steps = options.total_steps}},
                       .matrices = {.weight_decay = options.weight_decay}};
  if (options.rule == "adamw") {
    if (options.momentum) return fail(ErrorCode::kInvalid, "--momentum is of --optimizer=sgd");
    made.rule = core::AdamW{};
  } else if (options.rule == "sgd") {
    made.rule = core::Sgd{.momentum = options.momentum.value_or(0.9)};
  } else {
    return fail(ErrorCode::kInvalid, fmt::format("there is no --optimizer={}; choose one of {}", options.rule,
                                                 fmt::join(rule_names(), ", ")));
  }
  return made;
}

std::string describe(const core::Optimizer& optimizer) {
  return std::visit([](const auto& rule) { return text(rule); }, optimizer.rule) +
         fmt::format(" weight-decay={}", optimizer.matrices.weight_decay);
}

}  // namespace lockstep::trainer::optim
