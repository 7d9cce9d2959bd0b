// The addresses that a member offers for a generation: a listening socket for each local rank, and a free MASTER_PORT.
// And the interface that holds the pod's address.
#pragma once

#include <string>
#include <vector>

#include "operator/base/unique_fd.h"
#include "operator/rendezvous/member_state.h"

namespace lockstep::trainer::agent {

struct Offer {
  rendezvous::Prepared prepared;
  std::vector<UniqueFd> listeners;  // by local rank; close-on-exec
};

// Binds to `pod_ip`, a numeric address; to all addresses if the machine does not have it. `seed` differs between
// generations and jobs, so each gets another MASTER_PORT. A port that is taken is returned as a problem.
Offer make_offer(const std::string& pod_ip, const rendezvous::Propose& propose, const std::string& seed);

// The name of the network interface that holds the numeric address `ip`; empty if none of this machine does. All of
// 127.0.0.0/8 is the loopback's.
std::string interface_of(const std::string& ip);

}  // namespace lockstep::trainer::agent
