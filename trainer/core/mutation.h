// Mutations of a step, to test its promises. A test program compiled with LOCKSTEP_MUTATIONS reads TRAINER_MUTATION (a
// name below) and has that bug; the check of the ledgers must notice it. Shipped programs are compiled without it, and
// there mutation() is a constant.
#pragma once

#ifdef LOCKSTEP_MUTATIONS
#include <cstdlib>
#include <string_view>
#endif

namespace lockstep::trainer::core {

enum class Mutation {
  kNone,
  kDropSample,    // a sample of step 7 is left out, and the previous one at that place is trained on again
  kForgetStep,    // step 7 is applied and not counted, so it is applied again
  kStageTwice,    // batch statistics of an interrupted step stay, and its second run adds to them
  kTearTransfer,  // a state of which half has arrived is installed without a comparison
  kApplyBroken,   // a failed collective counts as done, whatever it left in its buffers
  kReuseBucket,   // a bucket leaves after the rank's first micro-batch, and the others add to it on its way
  kLeaveUnread,   // a bucket leaves the host's memory before the device has copied it there
  kCommitEarly,   // a step counts before the backend has written its state (cuda/mutation.h: and is told so)
  kSwapMomentum,  // the momentum of batch norm weighs the old statistics, and not the newest
  kTrustAhead,    // a step computes what was written ahead, whatever its position
};

#ifdef LOCKSTEP_MUTATIONS
inline Mutation mutation() {
  static const Mutation chosen = [] {
    const char* text = std::getenv("TRAINER_MUTATION");
    const std::string_view name = text == nullptr ? "" : text;
    if (name == "kDropSample") return Mutation::kDropSample;
    if (name == "kForgetStep") return Mutation::kForgetStep;
    if (name == "kStageTwice") return Mutation::kStageTwice;
    if (name == "kTearTransfer") return Mutation::kTearTransfer;
    if (name == "kApplyBroken") return Mutation::kApplyBroken;
    if (name == "kReuseBucket") return Mutation::kReuseBucket;
    if (name == "kLeaveUnread") return Mutation::kLeaveUnread;
    if (name == "kCommitEarly") return Mutation::kCommitEarly;
    if (name == "kSwapMomentum") return Mutation::kSwapMomentum;
    if (name == "kTrustAhead") return Mutation::kTrustAhead;
    return Mutation::kNone;
  }();
  return chosen;
}
#else
constexpr Mutation mutation() {
  return Mutation::kNone;
}
#endif

}  // namespace lockstep::trainer::core
