// Optimizers from the words of a command line, and as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/result.h"
#include "trainer/core/optimizer.h"

namespace lockstep::trainer::optim {

// An empty optional takes the default beside it.
struct OptimizerOptions {
  std::string rule = "adamw";               // one of rule_names()
  double weight_decay = 0;                  // of matrices; vectors have none
  std::optional<double> momentum;           // of sgd and lars; 0.9
  bool nesterov = false;                    // of sgd
  std::optional<double> trust_coefficient;  // of lars; 0.001
  double learning_rate = 1e-3;              // the peak
  std::string schedule = "cosine";          // after the warm-up; one of schedule_names()
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;          // where cosine and polynomial end, warm-up included
  std::vector<std::int64_t> milestones;  // of step: committed steps, at least one
  std::optional<double> decay_factor;    // of step; 0.1
  std::optional<int> power;              // of polynomial, from 1; 2
};

// "adamw", "lars" and "sgd".
const std::vector<std::string>& rule_names();
// "constant", "cosine", "polynomial" and "step". Cosine ends at a tenth of the peak, polynomial at 0.
const std::vector<std::string>& schedule_names();

// kInvalid: an unknown name, an option that the rule or the schedule lacks, or one that is missing. The sentence names
// the option by its flag.
Result<core::Optimizer> make_optimizer(const OptimizerOptions& options);

// Rule and weight decay as text, which a checkpoint is compared with. The schedule is not part of it: a run may
// continue with another one.
std::string describe(const core::Optimizer& optimizer);

}  // namespace lockstep::trainer::optim
