// AdamW (Loshchilov and Hutter): Adam's moments with bias correction, and weight decay apart from the gradient.
#pragma once

#include "trainer/core/optimizer.h"
#include "trainer/optim/schedule.h"

namespace lockstep::trainer::optim {

struct AdamWOptions {
  Schedule schedule;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  // of segments with `decay`
};

class AdamW final : public core::Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options) : options_(options) {}
  const std::vector<std::string>& slots() const override;
  std::uint64_t apply(const core::Update& update) const override;
  double learning_rate(std::int64_t step) const override { return optim::learning_rate(options_.schedule, step); }
  std::string describe() const override;

 private:
  AdamWOptions options_;
};

}  // namespace lockstep::trainer::optim
