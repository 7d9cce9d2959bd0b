// Checks of what callers hand in, with sentences.
#pragma once

#include "operator/base/result.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/device_reducer.h"
#include "trainer/comm/ring_communicator.h"

namespace lockstep::trainer::comm {

Status validate(const AllReduce& operation, int size);
Status validate(const Broadcast& operation, int size);
Status validate(const HandOn& operation, int size);
Status validate(const DeviceSum& operation, int size);
Status validate(const RingOptions& options);

}  // namespace lockstep::trainer::comm
