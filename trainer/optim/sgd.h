// Stochastic gradient descent with momentum: v = momentum v + g + decay p; p = p - rate v.
#pragma once

#include "trainer/core/optimizer.h"
#include "trainer/optim/schedule.h"

namespace lockstep::trainer::optim {

struct SgdOptions {
  Schedule schedule;
  double momentum = 0.9;
  double weight_decay = 0;  // of segments with `decay`
};

class Sgd final : public core::Optimizer {
 public:
  explicit Sgd(const SgdOptions& options) : options_(options) {}
  const std::vector<std::string>& slots() const override;
  std::uint64_t apply(const core::Update& update) const override;
  double learning_rate(std::int64_t step) const override { return optim::learning_rate(options_.schedule, step); }
  std::string describe() const override;

 private:
  SgdOptions options_;
};

}  // namespace lockstep::trainer::optim
