// The promises of a step are tested by breaking them: a program of the tests is compiled with LOCKSTEP_MUTATIONS and
// told by its environment (TRAINER_MUTATION, a name below) which bug to have, and whoever counts what was trained must
// notice. Everything that is shipped is compiled without, and mutation() is a constant.
#pragma once

#ifdef LOCKSTEP_MUTATIONS
#include <cstdlib>
#include <string_view>
#endif

namespace lockstep::trainer::core {

enum class Mutation {
  kNone,
  kDropSample,    // a sample of step 7 is left out, and what lay there before is trained on again
  kForgetStep,    // step 7 is applied and not counted, so it is applied again
  kStageTwice,    // batch statistics of a step that was interrupted stay, and are added to when it is done again
  kTearTransfer,  // a state of which half has come is taken, and nobody compares
  kApplyBroken,   // a collective that failed counts as done, whatever it left in its buffers
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
