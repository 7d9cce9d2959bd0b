// From a failure to the way that the process ends: its exit code and the report for the agent.
#pragma once

#include "operator/base/result.h"
#include "operator/rendezvous/worker_contract.h"

namespace lockstep::trainer::elastic {

// Where in the trainer an error came up; with its code this decides how the process ends.
enum class Origin {
  kUsage,          // flags
  kConfig,         // settings or environment
  kData,           // reading or checking data
  kRestore,        // loading a checkpoint
  kSave,           // writing a checkpoint
  kCommunication,  // making links or a collective
  kNumerics,       // NaN or infinity in the loss
  kInternal,       // anything else
};

// Whether a communicator's error is the doing of others (a peer went away, stalled or aborted) or of an interruption,
// so that the same operation may succeed in another generation.
bool peers_doing(ErrorCode code);

struct Ending {
  int exit_code = 0;
  rendezvous::FailureReport report;
};

// `suspect` is Communicator::suspect(), for kCommunication. Of kCommunication, kDeadlineExceeded and kUnavailable are a
// peer's doing (kExitCommunication); kInvalid, kConflict (ranks submitted different operations) and kInternal are our
// own.
Ending ending_of(const Error& error, Origin origin, int suspect = -1);

}  // namespace lockstep::trainer::elastic
