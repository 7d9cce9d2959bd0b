#include "trainer/optim/host_update.h"

#include "trainer/optim/rules.h"

namespace lockstep::trainer::optim {

std::uint64_t update_on_host(const core::Optimizer& optimizer, const core::Update& update, core::ElementType real,
                             int threads, core::NormTree& norms) {
  const Run run{.optimizer = optimizer, .update = update, .real = real, .threads = threads, .norms = norms};
  return std::visit([&](const auto& rule) { return apply(rule, run); }, optimizer.rule);
}

}  // namespace lockstep::trainer::optim
