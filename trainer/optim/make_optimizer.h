// Optimizers from the words of a command line, and as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/core/optimizer.h"

namespace lockstep::trainer::optim {

struct OptimizerOptions {
  std::string rule = "adamw";      // one of rule_names()
  double weight_decay = 0;         // of matrices; vectors have none
  std::optional<double> momentum;  // of sgd; empty: 0.9
  double learning_rate = 1e-3;     // the peak
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  // where the decay of the learning rate ends, warm-up included
};

// "adamw" and "sgd".
const std::vector<std::string>& rule_names();

// kInvalid: an unknown name, or an option that the rule lacks. The sentence names the option by its flag.
Result<core::Optimizer> make_optimizer(const OptimizerOptions& options);

// Rule and weight decay as text, which a checkpoint is compared with. The schedule is not part of it: a run may
// continue with another one.
std::string describe(const core::Optimizer& optimizer);

}  // namespace lockstep::trainer::optim
