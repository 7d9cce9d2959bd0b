// The promises of the protocol are tested by breaking them: the tests compile the state machines again with one of
// these set and expect their invariants to fail. Everything that is shipped is compiled with kNone.
#pragma once

namespace lockstep::rendezvous {

enum class Mutation {
  kNone,
  kGoBeforeRecord,     // GO does not wait for the compare-and-set
  kReadyWhileRunning,  // READY does not wait for the old processes to end
  kReuseNumber,        // a discarded proposal's number is used again
  kKeepUnasked,        // READY for processes that stay does not wait for them to end their communicators
  kDisjointSuccessor,  // a smaller gang may follow one of which nobody has promised to be done
  kNoTransfer,         // ranks that hold another state than the source, or none, go on without it
};

#ifdef LOCKSTEP_MUTATION
inline constexpr Mutation kMutation = Mutation::LOCKSTEP_MUTATION;
#else
inline constexpr Mutation kMutation = Mutation::kNone;
#endif

}  // namespace lockstep::rendezvous
