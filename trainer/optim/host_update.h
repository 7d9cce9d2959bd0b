// Carries out an optimizer in memory of the host, for every backend that computes there. The bits are the same for
// every number of threads, and on every machine.
#pragma once

#include <cstdint>

#include "trainer/core/norm.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/tensor.h"

namespace lockstep::trainer::optim {

// As Backend::update. `real` is the type of the arenas' elements; `norms` is scratch, which Lars uses.
std::uint64_t update_on_host(const core::Optimizer& optimizer, const core::Update& update, core::ElementType real,
                             int threads, core::NormTree& norms);

}  // namespace lockstep::trainer::optim
