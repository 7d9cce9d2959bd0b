// A batch norm of images with what follows it, as one kernel: the sum with another tensor, and an activation. Two
// passes over the pixels forward and two backward, whatever follows.
#pragma once

#include <memory>

#include "trainer/backend/cpu/kernel.h"
#include "trainer/backend/norm_block.h"

namespace lockstep::trainer::backend::cpu {

// Norms of other rows (ops/batch_norm.cpp) have too few of them to be shared out by rows.
inline bool is_over_images(const Dimensions& d) {
  return d.height > 0;
}

// `d` is that of the norm, and so is the site's node.
Needs needs_of(const NormBlock& block, const Dimensions& d, const Team& team);
std::unique_ptr<Kernel> make_kernel(const NormBlock& block, Site site);

}  // namespace lockstep::trainer::backend::cpu
