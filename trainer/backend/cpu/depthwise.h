// Convolutions of each channel by itself. Over N, H, W, C they are sums of rows of channels, bound by memory, and the
// library would reorder the images for them.
#pragma once

#include <memory>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

struct Depthwise {
  core::ops::Conv2d convolution;
};

// Whether the convolution is one: as many groups as channels, before and after, no bias, and a small kernel.
bool is_depthwise(const core::ops::Conv2d& op, const Dimensions& d);

Needs needs_of(const Depthwise& op, const Dimensions& d, const Team& team);
std::unique_ptr<Kernel> make_kernel(const Depthwise& op, Site site);

}  // namespace lockstep::trainer::backend::cpu
