// Rendezvous of ranks that know only MASTER_ADDR and MASTER_PORT. Rank 0 listens there. Every other rank connects and
// says its rank, its identity line and the address of its data socket. Then each gets the whole list and a fresh key.
// One line of JSON each way.
#pragma once

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "trainer/comm/ring_communicator.h"
#include "trainer/elastic/world.h"

namespace lockstep::trainer::elastic {

// Fills options.listen_fd (a new socket), peers, members and key. Errors as in ring_options(). Rank 0 closes
// connections that say nothing or nonsense; they delay no rank.
Status exchange(const World& world, Duration deadline, comm::RingOptions& options);

}  // namespace lockstep::trainer::elastic
