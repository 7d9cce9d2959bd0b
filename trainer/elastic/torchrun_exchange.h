// How ranks that were given only MASTER_ADDR and MASTER_PORT find each other: rank 0 listens there, every other rank
// says who it is and where its data socket listens, and when all have come each gets the whole list and a fresh key.
// One line of JSON each way.
#pragma once

#include "operator/base/clock.h"
#include "operator/base/result.h"
#include "trainer/comm/ring_communicator.h"
#include "trainer/elastic/world.h"

namespace lockstep::trainer::elastic {

// Fills options.listen_fd (a new socket), peers, members and key. Errors as ring_options() says. Strangers that connect
// to rank 0 and say nothing or nonsense are closed and delay nobody.
Status exchange(const World& world, Duration deadline, comm::RingOptions& options);

}  // namespace lockstep::trainer::elastic
