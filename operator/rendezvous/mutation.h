// The promises of the protocol are tested by breaking them. Tests compile the state machines again so that one of these
// can be set, and expect their invariants to fail. Everything that is shipped is compiled with kNone.
#pragma once

namespace lockstep::rendezvous {

enum class Mutation {
  kNone,
  kGoBeforeRecord,            // GO does not wait for the compare-and-set
  kReadyWhileRunning,         // READY does not wait for the old processes to end
  kReuseNumber,               // a discarded proposal's number is used again
  kKeepUnasked,               // READY for processes that stay does not wait for them to end their communicators
  kDisjointSuccessor,         // a smaller gang may follow one of which nobody has promised to be done
  kNoTransfer,                // ranks that hold another state than the source, or none, go on without it
  kVersionWithoutGeneration,  // states of the same number of steps count as the same, by any rank
  kForgetReports,             // what an agent told an earlier coordinator of failures is not told to the next one
  kGoBelowPromise,            // a GO counts that is not of the proposal which was promised last
  kReuseKey,                  // a generation has the key of the one before
  kKeepBadLinks,              // two members that never reach one another are linked again and again
  kRankFromSlot,              // who takes over believes that ranks follow slots
  kBlameWhenCutOff,           // a coordinator that hears from no member takes all for lost
  // These are in the model of the trainer that the tests have:
  kTornReceive,         // a state that was received in part counts as received
  kPublishUnconfirmed,  // a checkpoint is reported before a collective of the next step has confirmed its state
};

#ifdef LOCKSTEP_MUTATIONS  // a test program that sets one after the other
inline Mutation kMutation = Mutation::kNone;
#else
inline constexpr Mutation kMutation = Mutation::kNone;
#endif

}  // namespace lockstep::rendezvous
