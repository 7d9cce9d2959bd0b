// The tests of the CUDA backend with bugs in what the host tells the GPU (trainer/cuda/mutation.h and, of a step,
// trainer/core/mutation.h). A program has them all and takes one by its name. Without a bug its tests pass; with one
// the test that is named here must fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/trainer/main/process.h"

namespace lockstep::trainer {
namespace {

using testing::Ended;

struct Bug {
  const char* name;
  const char* tests;   // a filter: they pass without the bug
  const char* notice;  // what the output then says: a regular expression
};

void PrintTo(const Bug& bug, std::ostream* out) {
  *out << bug.name;
}

constexpr const char* kOverNccl = "TrainingOverNccl.deterministic_is_bitwise_identical_for_every_number_of_ranks";
constexpr const char* kByHost = "TrainingInBfloat16.deterministic_is_bitwise_identical_for_every_number_of_ranks";
constexpr const char* kConvolutions = "SmallImages/CudaLayer.*/conv_3x3*";
constexpr const char* kDiffer = "tests/trainer/core/gang.h:[0-9]+: Failure";  // the ranks, or a step is not finite
constexpr const char* kLoss = "actual.loss\\(\\) and loss is .* which exceeds";

const Bug kBugs[] = {
    // A dropped wait on an event.
    {"kSumUnawaited", kOverNccl, kDiffer},
    {"kLeaveUnread", kByHost, kDiffer},
    {"kLandUnasked", "CudaMemory.a_read_shows_at_its_mark_and_not_before_work_is_done", "got\\[i\\]"},
    // Memory that is reused early.
    {"kReuseBucket", kOverNccl, kDiffer},
    {"kReuseRing", "CudaMemory.copies_may_be_larger_than_the_pinned_ring_and_of_any_size", "got == given"},
    {"kReuseImages", "Images.of_many_writes_in_a_row_are_each_their_own", "get\\(\\*places\\[i\\]\\)"},
    // Images that are computed too early, or in another step than theirs.
    {"kSpreadUnawaited", "Images.come_in_the_order_of_the_queue", "got\\[i\\]"},
    {"kTrustAhead", "ImagesAhead.a_step_that_fails_afterwards_loses_and_repeats_no_sample", "checksums_of"},
    // A commit before the optimizer's event.
    {"kCommitEarly", "CommitOnCuda.a_step_whose_update_the_gpu_loses_does_not_count", "Exited with exit status 2"},
    {"kCommitEarly", "Arenas.an_update_leaves_the_bits_and_the_digest_that_the_host_would",
     "cuda_->update\\(optimizer, update\\)"},
    // A derived weight that an installed state does not refresh.
    {"kKeepCopies", "Bfloat16.copies_of_parameters_follow_the_state", "bench.gradient\\(\\)"},
    // What libraries and kernels are told.
    {"kWrongStride", kConvolutions, kLoss},
    {"kShiftedPadding", kConvolutions, kLoss},
    {"kWrongDilation", kConvolutions, kLoss},
    {"kNoBias", "Small/CudaLayer.*/linear", kLoss},
    {"kLittleWorkspace", "Small/CudaLayer.*/linear", "program_->forward\\(context, abort\\).ok\\(\\)"},
    {"kLittleScratch", kConvolutions, "libfakecuda: a kernel: .* are not within an allocation of the device"},
    {"kSwapMomentum", "CommitOnCuda.running_statistics_take_the_momentums_part_of_what_ref_sees", "after\\[i\\]"},
    {"kTf32Unasked", "Products.round_their_operands_to_tf32_only_if_asked", "largest_error\\(got, tf32\\)"},
    {"kTf32Unasked", "Convolutions.round_their_operands_to_tf32_only_if_asked", "plan->notes\\(\\)"},
    {"kTf32Unasked", "Small/CudaLayer.*/linear", kLoss},
    {"kTf32Unasked", kConvolutions, kLoss},
    {"kNoTf32", "Products.round_their_operands_to_tf32_only_if_asked", "largest_error\\(got, tf32\\)"},
    {"kNoTf32", "Convolutions.round_their_operands_to_tf32_only_if_asked", "plan->notes\\(\\)"},
    {"kNoTf32", "Tf32.changes_products_and_convolutions_alone", "one != other"},
    {"kSwappedStatistics", "Small/CudaLayer.*/batch_norm", "actual.staged\\(\\)\\[i\\]"},
};

class CudaMutation : public testing::InFolder, public ::testing::WithParamInterface<Bug> {
 protected:
  Ended run_mutated(const std::string& tests, const std::string& bug) {
    // No report: GTEST_OUTPUT, which it inherits, would have its failures counted.
    return run({"--gtest_color=no", "--gtest_output=", "--gtest_filter=" + tests}, {{"TRAINER_MUTATION", bug}},
               {.program = CUDA_BACKEND_MUTATED});
  }
};

TEST_F(CudaMutation, without_one_the_tests_pass) {
  std::string all;
  for (const Bug& bug : kBugs) all += std::string(bug.tests) + ":";
  const Ended ended = run_mutated(all, "");
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_THAT(ended.out, ::testing::HasSubstr("[  PASSED  ]"));
}

TEST_P(CudaMutation, is_noticed) {
  const Bug& bug = GetParam();
  const Ended ended = run_mutated(bug.tests, bug.name);
  EXPECT_NE(ended.code, 0) << bug.name << ": nobody noticed\n" << ended.out;
  EXPECT_THAT(ended.out + ended.err, ::testing::ContainsRegex(bug.notice)) << "exit code " << ended.code;
  std::printf("%s: noticed by %s\n", bug.name, bug.tests);
}

INSTANTIATE_TEST_SUITE_P(All, CudaMutation, ::testing::ValuesIn(kBugs), [](const auto& which) {
  return std::string(which.param.name) + "_" + std::to_string(which.index);
});

}  // namespace
}  // namespace lockstep::trainer
