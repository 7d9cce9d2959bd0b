#include "trainer/optim/make_optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::trainer::optim {

namespace {

std::string text(const core::Sgd& rule) {
  return fmt::format("sgd momentum={}{}", rule.momentum, rule.nesterov ? " nesterov" : "");
}

std::string text(const core::AdamW& rule) {
  return fmt::format("adamw beta1={} beta2={} epsilon={}", rule.beta1, rule.beta2, rule.epsilon);
}

std::string text(const core::Lars& rule) {
  return fmt::format("lars momentum={} trust-coefficient={}", rule.momentum, rule.trust_coefficient);
}

auto refuse(std::string sentence) {
  return fail(ErrorCode::kInvalid, std::move(sentence));
}

Result<core::Rule> make_rule(const OptimizerOptions& options) {
  const bool sgd = options.rule == "sgd", lars = options.rule == "lars";
  if (!sgd && !lars && options.rule != "adamw") {
    return refuse(
        fmt::format("there is no --optimizer={}; choose one of {}", options.rule, fmt::join(rule_names(), ", ")));
  }
  if (!sgd && !lars && options.momentum) return refuse("--momentum needs --optimizer=sgd or lars");
  if (!sgd && options.nesterov) return refuse("--nesterov needs --optimizer=sgd");
  if (!lars && options.trust_coefficient) return refuse("--trust-coefficient needs --optimizer=lars");
  const double momentum = options.momentum.value_or(0.9);
  if (options.nesterov && momentum == 0) return refuse("--nesterov needs a --momentum above 0");
  if (sgd) return core::Rule(core::Sgd{.momentum = momentum, .nesterov = options.nesterov});
  if (lars) {
    return core::Rule(core::Lars{.momentum = momentum, .trust_coefficient = options.trust_coefficient.value_or(0.001)});
  }
  return core::Rule(core::AdamW{});
}

Result<core::Decay> make_decay(const OptimizerOptions& options) {
  const bool step = options.schedule == "step", polynomial = options.schedule == "polynomial";
  const bool cosine = options.schedule == "cosine";
  if (!step && !polynomial && !cosine && options.schedule != "constant") {
    return refuse(fmt::format("there is no --schedule={}; choose one of {}", options.schedule,
                              fmt::join(schedule_names(), ", ")));
  }
  if (!step && !options.milestones.empty()) return refuse("--milestones needs --schedule=step");
  if (!step && options.decay_factor) return refuse("--decay-factor needs --schedule=step");
  if (!polynomial && options.power) return refuse("--power needs --schedule=polynomial");
  if (step && options.milestones.empty()) return refuse("--schedule=step needs --milestones");
  if (options.power && *options.power < 1) return refuse("--power must be at least 1");
  if (step) {
    return core::Decay(core::StepDecay{.milestones = options.milestones, .factor = options.decay_factor.value_or(0.1)});
  }
  if (polynomial) {
    return core::Decay(core::PolynomialDecay{.total_steps = options.total_steps, .power = options.power.value_or(2)});
  }
  if (cosine) return core::Decay(core::CosineDecay{.total_steps = options.total_steps});
  return core::Decay(core::ConstantRate{});
}

}  // namespace

const std::vector<std::string>& rule_names() {
  static const std::vector<std::string> names = {"adamw", "lars", "sgd"};
  return names;
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = {"constant", "cosine", "polynomial", "step"};
  return names;
}

Result<core::Optimizer> make_optimizer(const OptimizerOptions& options) {
  LOCKSTEP_TRY(const core::Rule rule, make_rule(options));
  LOCKSTEP_TRY(const core::Decay decay, make_decay(options));
  return core::Optimizer{
      .rule = rule,
      .schedule = {.peak = options.learning_rate, .warmup_steps = options.warmup_steps, .decay = decay},
      .matrices = {.weight_decay = options.weight_decay, .trust_ratio = std::holds_alternative<core::Lars>(rule)}};
}

std::string describe(const core::Optimizer& optimizer) {
  return std::visit([](const auto& rule) { return text(rule); }, optimizer.rule) +
         fmt::format(" weight-decay={}", optimizer.matrices.weight_decay);
}

}  // namespace lockstep::trainer::optim
