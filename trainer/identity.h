// What all ranks of a generation must have in common, so that they compute one model in one way.
#pragma once

#include <map>
#include <string>

#include "trainer/rank.h"

namespace lockstep::trainer {

// By the name of the flag where there is one: model and its options, data (a fingerprint) and what becomes of damage in
// it; seed, sizes of batches, optimizer, schedule, what decides which collectives a step has, and the transport's kind.
// `gradients` is their type, `numerics` is Rank::numerics_id(), or `any`. With `any` each rank rounds in its own way,
// and the all-reduce gives all of them one result. `gpu` is there with --backend=cuda: the GPU's name and compute
// capability, and the versions of NVIDIA's libraries. `transport` has that of NCCL. The rank is loaded. At most 32
// fields, of values of at most 128 bytes: coordinators compare no more.
std::map<std::string, std::string> identity_of(const Rank& rank);

}  // namespace lockstep::trainer
