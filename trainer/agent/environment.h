// The environment of a worker process: what operator/rendezvous/worker_contract.h promises, and the variables that
// programs written for torchrun read. Pure.
#pragma once

#include <string>
#include <vector>

#include "operator/rendezvous/protocol.h"

namespace lockstep::trainer::agent {

// `base` ("NAME=value" each) is the agent's own environment; the agent's private variables are removed. Then come
// spec.rendezvous.env and the variables of the generation, each of which replaces earlier ones. Each process gets an
// equal part of the GPUs in NVIDIA_VISIBLE_DEVICES, unless the job has divided them (docs/elastic.md). `listen_fd` and
// `agent_fd` are descriptors in the worker, -1 for none; so is `peers_fd`, of a file with peers_text().
std::vector<std::string> worker_environment(const std::vector<std::string>& base, const rendezvous::Go& go,
                                            int local_rank, int listen_fd, int agent_fd, int peers_fd = -1);

// The text of LOCKSTEP_PEERS_FILE; empty if the lists fit into their variables, or if there are none.
std::string peers_text(const rendezvous::Go& go);

}  // namespace lockstep::trainer::agent
