// From a failure to the end of the process: its exit code and the report for the agent.
#pragma once

#include "operator/base/result.h"
#include "operator/rendezvous/worker_contract.h"
#include "trainer/elastic/outcome.h"

namespace lockstep::trainer::elastic {

// Whether another process (it went away, stalled or aborted) or an interruption caused a communicator's error. Then the
// same operation may succeed in another generation.
bool caused_by_peer(ErrorCode code);

struct Ending {
  int exit_code = 0;
  rendezvous::FailureReport report;
};

// `suspect` is Communicator::suspect(), for kCommunication. Of kCommunication, kDeadlineExceeded and kUnavailable blame
// a peer (kExitCommunication). kInvalid, kConflict (ranks submitted different operations) and kInternal blame this
// process. kDeadlineExceeded of kRestore and kSave, and with kUnavailable of kData, is storage that does not answer
// (kExitWatchdog). A restart may find it healthy.
Ending ending_of(const Failure& failure, int suspect = -1);

}  // namespace lockstep::trainer::elastic
