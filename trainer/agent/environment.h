// The environment of a worker process: what operator/rendezvous/worker_contract.h promises, and the variables that
// programs written for torchrun read. Pure.
#pragma once

#include <string>
#include <vector>

#include "operator/rendezvous/protocol.h"

namespace lockstep::trainer::agent {

// Descriptors as numbers in the worker; -1 for none.
struct WorkerDescriptors {
  int listen = -1;  // the listener of its rank
  int agent = -1;   // the link
  int peers = -1;   // a file with peers_text()
};

// `base` ("NAME=value" each) is the agent's own environment; the agent's private variables are removed. Then come
// spec.rendezvous.env and the variables of the generation, each of which replaces earlier ones. Each process gets an
// equal part of the GPUs in NVIDIA_VISIBLE_DEVICES, unless the job has divided them (docs/elastic.md). Each of NCCL's
// settings that is in neither `base` nor spec.rendezvous.env follows from the pod (docs/gpu.md). `interface` is the one
// that holds the pod's address, empty if it is not known. A process of Kind::kNone gets none of them.
std::vector<std::string> worker_environment(const std::vector<std::string>& base, const rendezvous::Go& go,
                                            int local_rank, WorkerDescriptors descriptors = {},
                                            const std::string& interface = "");

// The text of LOCKSTEP_PEERS_FILE; empty if the lists fit into their variables, or if there are none.
std::string peers_text(const rendezvous::Go& go);

}  // namespace lockstep::trainer::agent
