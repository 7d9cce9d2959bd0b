// A ReLU of images and the max pooling after it, as one kernel (ops/max_pool2d.cpp). The largest value is at one place
// before and after the ReLU, so nothing between them needs memory.
#pragma once

#include <memory>

#include "trainer/backend/cpu/kernel.h"

namespace lockstep::trainer::backend::cpu {

struct ReluMaxPool {
  core::ops::MaxPool2d pool;
};

// `d` is that of the pooling, and so is the site's node.
Needs needs_of(const ReluMaxPool& op, const Dimensions& d, const Team& team);
std::unique_ptr<Kernel> make_kernel(const ReluMaxPool& op, Site site);

}  // namespace lockstep::trainer::backend::cpu
