#include "trainer/identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <variant>

#include "trainer/comm/nccl_api.h"
#include "trainer/core/random.h"

namespace lockstep::trainer {

namespace {

using Fields = std::map<std::string, std::string>;

constexpr size_t kMostValue = 128;  // bytes

// A longer text keeps its beginning, for people, and a hash of all of it.
std::string bounded(const std::string& text) {
  constexpr size_t kHash = 16 + 1;
  if (text.size() <= kMostValue) return text;
  return fmt::format("{}#{:016x}", text.substr(0, kMostValue - kHash), core::derive(0, text));
}

void add(Fields& fields, const core::Sgd& rule) {
  fields["momentum"] = fmt::format("{}", rule.momentum);
  fields["nesterov"] = fmt::format("{}", rule.nesterov);
}
void add(Fields& fields, const core::Lars& rule) {
  fields["momentum"] = fmt::format("{}", rule.momentum);
  fields["trust-coefficient"] = fmt::format("{}", rule.trust_coefficient);
}
void add(Fields&, const core::AdamW&) {}

void add(Fields& fields, const core::StepDecay& decay) {
  fields["milestones"] = bounded(fmt::format("{}", fmt::join(decay.milestones, ",")));
  fields["decay-factor"] = fmt::format("{}", decay.factor);
}
void add(Fields& fields, const core::PolynomialDecay& decay) {
  fields["power"] = fmt::format("{}", decay.power);
}
void add(Fields&, const core::CosineDecay&) {}
void add(Fields&, const core::ConstantRate&) {}

// What the GPU's numbers depend on, "cuda/float32/NAME/sm-90/driver-13.0/runtime-13.2/...", without the driver: nodes
// get a newer one while jobs run. With --deterministic it is in `numerics`.
std::string gpu_of(const Rank& rank) {
  std::string text = rank.backend->numerics();
  const size_t begin = text.find("/driver-");
  if (begin != std::string::npos) text.erase(begin, text.find('/', begin + 1) - begin);
  return bounded(text);
}

// With the version of NCCL.
std::string transport_of(const Rank& rank) {
  if (!rank.world.nccl) return "ring";
  int version = 0;
  static_cast<void>(rank.world.nccl->api.get_version(&version));  // a library that does not say is not loaded
  return fmt::format("nccl-{}", version);
}

}  // namespace

std::map<std::string, std::string> identity_of(const Rank& rank) {
  const Flags& flags = rank.flags;
  const core::Optimizer& optimizer = rank.task->optimizer;
  const std::string numerics = rank.numerics_id();
  Fields fields = {
      {"gradients", rank.backend->real() == core::ElementType::kFloat64 ? "fp64" : "fp32"},
      {"precision", flags.precision},
      {"numerics", numerics.empty() ? "any" : bounded(numerics)},
      {"model", flags.model},
      {"data", rank.task->data.fingerprint == 0 ? "generated" : fmt::format("{:016x}", rank.task->data.fingerprint)},
      {"on-damage", flags.on_damage == "skip" ? "skip" : "fail"},  // skipping puts other samples in a batch
      {"seed", fmt::format("{}", flags.seed)},
      {"batch-size", fmt::format("{}", flags.batch_size)},
      {"micro-batch-size", fmt::format("{}", flags.micro_batch_size)},
      {"optimizer", flags.optimizer},
      {"weight-decay", fmt::format("{}", optimizer.matrices.weight_decay)},
      {"clip-norm", fmt::format("{}", *flags.clip_norm)},
      {"schedule", flags.schedule},
      {"learning-rate", fmt::format("{}", optimizer.schedule.peak)},
      {"warmup-steps", fmt::format("{}", optimizer.schedule.warmup_steps)},
      // When ranks evaluate, save and end: they submit the same collectives then.
      {"steps", fmt::format("{}", flags.steps)},
      {"eval-every", fmt::format("{}", flags.eval_every)},
      {"eval-samples", fmt::format("{}", flags.eval_samples)},
      {"checkpoint-every-steps", fmt::format("{}", flags.checkpoint_every_steps)},
      {"keep-best", flags.keep_best ? "true" : "false"},
      {"early-stop-evaluations", fmt::format("{}", flags.early_stop_evaluations)},
      {"transport", transport_of(rank)},
  };
  // A rank of --backend=auto may compute on the CPU beside others that do not.
  if (flags.backend == "cuda") fields["gpu"] = gpu_of(rank);
  std::visit([&fields](const auto& rule) { add(fields, rule); }, optimizer.rule);
  std::visit([&fields](const auto& decay) { add(fields, decay); }, optimizer.schedule.decay);
  for (const auto& [name, value] : flags.model_options.all()) fields[name] = models::to_text(value);
  return fields;
}

}  // namespace lockstep::trainer
