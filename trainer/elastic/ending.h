// From a failure to the end of the process: its exit code and the report for the agent.
#pragma once

#include "operator/base/result.h"
#include "operator/rendezvous/worker_contract.h"

namespace lockstep::trainer::elastic {

// The part of the trainer that an error comes from. With the error's code it decides the exit code.
enum class Origin {
  kUsage,          // flags
  kConfig,         // settings or environment
  kData,           // reading or checking data
  kRestore,        // loading a checkpoint
  kSave,           // writing a checkpoint
  kCommunication,  // connecting, or a collective
  kNumerics,       // NaN or infinity in the loss
  kInternal,       // anything else
};

// Whether another process (it went away, stalled or aborted) or an interruption caused a communicator's error, so that
// the same operation may succeed in another generation.
bool peers_doing(ErrorCode code);

struct Ending {
  int exit_code = 0;
  rendezvous::FailureReport report;
};

// `suspect` is Communicator::suspect(), for kCommunication. Of kCommunication, kDeadlineExceeded and kUnavailable blame
// a peer (kExitCommunication). kInvalid, kConflict (ranks submitted different operations) and kInternal blame this
// process. kDeadlineExceeded of kRestore and kSave is slow storage (kExitWatchdog), which a restart may find healthy.
Ending ending_of(const Error& error, Origin origin, int suspect = -1);

}  // namespace lockstep::trainer::elastic
