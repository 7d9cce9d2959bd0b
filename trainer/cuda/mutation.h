// Bugs in what the host tells a GPU, to test who notices them. A test program compiled with LOCKSTEP_MUTATIONS reads
// TRAINER_MUTATION (a name below) and has that bug. Shipped programs are compiled without it, and there mutation() is a
// constant. trainer/core/mutation.h has the bugs of a step.
#pragma once

#ifdef LOCKSTEP_MUTATIONS
#include <cstdlib>
#include <string_view>
#include <utility>
#endif

namespace lockstep::trainer::cuda {

enum class Mutation {
  kNone,
  // Order of work.
  kSumUnawaited,     // NCCL sums a bucket without waiting for the event behind its gradients
  kLandUnasked,      // what a copy brings is taken without asking for its event
  kReuseRing,        // pinned memory is written again before the copy from it has run
  kCommitEarly,      // an update returns before the optimizer's event (core/mutation.h: and the step counts)
  kKeepCopies,       // a parameter's bfloat16 copy stays as the first forward pass made it
  kSpreadUnawaited,  // images are read without waiting for the event behind their copy
  kReuseImages,      // an image's pinned buffer is filled again before the copy from it has run
  // What libraries and kernels are told.
  kWrongStride,        // of a convolution, with padding behind the image that makes the sizes fit
  kShiftedPadding,     // one zero more before the image and one less behind it
  kWrongDilation,      // of a convolution, with padding that makes the sizes fit
  kNoBias,             // a product without its epilogue
  kLittleWorkspace,    // a product gets a part of the workspace that its plan was promised
  kLittleScratch,      // a convolution's plan finds half of the workspace that it needs
  kTf32Unasked,        // libraries may round float32 to TF32 without --precision=tf32
  kNoTf32,             // they may not with it
  kSwappedStatistics,  // a batch's mean lies where its variance belongs, and the other way round
};

#ifdef LOCKSTEP_MUTATIONS
inline Mutation mutation() {
  static const Mutation chosen = [] {
    constexpr std::pair<std::string_view, Mutation> kAll[] = {
        {"kSumUnawaited", Mutation::kSumUnawaited},
        {"kLandUnasked", Mutation::kLandUnasked},
        {"kReuseRing", Mutation::kReuseRing},
        {"kCommitEarly", Mutation::kCommitEarly},
        {"kKeepCopies", Mutation::kKeepCopies},
        {"kSpreadUnawaited", Mutation::kSpreadUnawaited},
        {"kReuseImages", Mutation::kReuseImages},
        {"kWrongStride", Mutation::kWrongStride},
        {"kShiftedPadding", Mutation::kShiftedPadding},
        {"kWrongDilation", Mutation::kWrongDilation},
        {"kNoBias", Mutation::kNoBias},
        {"kLittleWorkspace", Mutation::kLittleWorkspace},
        {"kLittleScratch", Mutation::kLittleScratch},
        {"kTf32Unasked", Mutation::kTf32Unasked},
        {"kNoTf32", Mutation::kNoTf32},
        {"kSwappedStatistics", Mutation::kSwappedStatistics},
    };
    const char* text = std::getenv("TRAINER_MUTATION");
    for (const auto& [name, mutation] : kAll) {
      if (text != nullptr && name == text) return mutation;
    }
    return Mutation::kNone;
  }();
  return chosen;
}
#else
constexpr Mutation mutation() {
  return Mutation::kNone;
}
#endif

}  // namespace lockstep::trainer::cuda
