// The program with --backend=cuda: on the fakes of NVIDIA's libraries, and without them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/sanitizer.h"
#include "tests/trainer/main/identity_line.h"
#include "tests/trainer/main/process.h"

namespace lockstep::trainer {
namespace {

using testing::Ended;
using testing::Environment;
using testing::value_of;

class OnCuda : public testing::InFolder {
 protected:
  // The program with emulated kernels.
  Ended run_emulated(std::vector<std::string> arguments, const Environment& environment = {}) {
    return run(std::move(arguments), environment, {.program = LOCKSTEP_TRAINER_CUDA});
  }
  static std::vector<std::string> on_fake(std::vector<std::string> more, const std::string& backend = "cuda") {
    more.insert(more.end(), {"--backend=" + backend, std::string("--cudart-library=") + FAKE_CUDA_LIBRARY,
                             std::string("--cublaslt-library=") + FAKE_CUBLASLT_LIBRARY,
                             std::string("--cudnn-library=") + FAKE_CUDNN_LIBRARY});
    return more;
  }
  // One step of the smallest convolutional network, on the fakes but for cuDNN, which is not there.
  static std::vector<std::string> without_cudnn(const std::string& backend) {
    auto arguments = on_fake(
        {"--model=resnet18-cifar", "--data=synthetic", "--steps=1", "--width=4", "--batch-size=4", "--eval-samples=2"},
        backend);
    arguments.back() = "--cudnn-library=/nowhere/libcudnn.so";
    return arguments;
  }
  std::vector<std::string> regression(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"--model=linear-regression", "--steps=12"});
    return more;
  }
};

TEST_F(OnCuda, models_train_to_the_losses_of_cpu) {
  const std::string words = text();
  const std::vector<std::vector<std::string>> models = {
      {"--model=linear-regression", "--steps=30"},
      {"--model=mlp", "--data=synthetic", "--steps=10", "--width=16"},
      {"--model=char-transformer", "--data=" + words, "--steps=6", "--layers=2", "--width=32", "--heads=2",
       "--context=16", "--eval-samples=8"},
      {"--model=resnet18-cifar", "--data=synthetic", "--steps=2", "--width=4", "--eval-samples=4"}};
  for (std::vector<std::string> model : models) {
    SCOPED_TRACE(model[0]);
    model.insert(model.end(), {"--batch-size=8", "--micro-batch-size=4"});
    const Ended cuda = run_emulated(on_fake(model)), cpu = run(model);
    ASSERT_EQ(cuda.code, 0) << cuda.err;
    ASSERT_EQ(cpu.code, 0) << cpu.err;
    for (const char* loss : {"train_loss", "held_out_loss"}) {
      const double expected = std::atof(value_of(cpu.out, loss).c_str());
      EXPECT_GT(expected, 0) << loss;
      EXPECT_NEAR(std::atof(value_of(cuda.out, loss).c_str()), expected, 1e-3 * expected + 1e-6) << loss;
    }
  }
}

TEST_F(OnCuda, a_checkpoint_continues_bitwise_identically) {
  const auto saving = [&](const std::string& name, int steps) {
    return on_fake({"--model=mlp", "--data=synthetic", "--steps=" + std::to_string(steps), "--width=16",
                    "--batch-size=8", "--deterministic", "--schedule=constant", "--warmup-steps=0", "--eval-samples=8",
                    "--checkpoint-dir=" + (folder_ / name).string()});
  };
  const Ended whole = run_emulated(saving("whole", 6));
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(run_emulated(saving("parts", 3)).code, 0);
  const Ended parts = run_emulated(saving("parts", 6));
  ASSERT_EQ(parts.code, 0) << parts.err;
  EXPECT_EQ(value_of(parts.out, "digest"), value_of(whole.out, "digest"));
  EXPECT_THAT(value_of(whole.out, "digest"), ::testing::Not(::testing::HasSubstr("no digest")));
}

TEST_F(OnCuda, in_bfloat16_models_train_near_the_losses_of_cpu) {
  const std::string words = text();
  const std::vector<std::vector<std::string>> models = {
      {"--model=linear-regression", "--steps=5"},
      {"--model=mlp", "--data=synthetic", "--steps=10", "--width=16"},
      {"--model=char-transformer", "--data=" + words, "--steps=6", "--layers=2", "--width=32", "--heads=2",
       "--context=16", "--eval-samples=8"},
      {"--model=resnet18-cifar", "--data=synthetic", "--steps=2", "--width=4", "--eval-samples=4"}};
  for (std::vector<std::string> model : models) {
    SCOPED_TRACE(model[0]);
    model.insert(model.end(), {"--batch-size=8", "--micro-batch-size=4"});
    const Ended cpu = run(model);
    model.emplace_back("--precision=bf16");
    const Ended cuda = run_emulated(on_fake(model));
    ASSERT_EQ(cuda.code, 0) << cuda.err;
    ASSERT_EQ(cpu.code, 0) << cpu.err;
    EXPECT_THAT(cuda.out, ::testing::HasSubstr("cuda/bfloat16/"));
    for (const char* loss : {"train_loss", "held_out_loss"}) {
      const double expected = std::atof(value_of(cpu.out, loss).c_str());
      EXPECT_GT(expected, 0) << loss;
      // A ResNet of 4 channels has few numbers whose errors could cancel.
      EXPECT_NEAR(std::atof(value_of(cuda.out, loss).c_str()), expected, 0x1.0p-4 * expected) << loss;
    }
  }
}

TEST_F(OnCuda, in_tf32_models_train_near_the_losses_of_cpu) {
  const std::vector<std::vector<std::string>> models = {
      {"--model=mlp", "--data=synthetic", "--steps=10", "--width=16"},
      {"--model=resnet18-cifar", "--data=synthetic", "--steps=2", "--width=4", "--eval-samples=4"}};
  for (std::vector<std::string> model : models) {
    SCOPED_TRACE(model[0]);
    model.insert(model.end(), {"--batch-size=8", "--micro-batch-size=4"});
    const Ended cpu = run(model), wide = run_emulated(on_fake(model));
    model.emplace_back("--precision=tf32");
    const Ended cuda = run_emulated(on_fake(model));
    ASSERT_EQ(cuda.code, 0) << cuda.err;
    ASSERT_EQ(cpu.code, 0) << cpu.err;
    EXPECT_THAT(cuda.out, ::testing::HasSubstr("cuda/tf32/"));
    EXPECT_THAT(cuda.out, ::testing::HasSubstr("\"precision\":\"tf32\""));
    EXPECT_NE(value_of(cuda.out, "train_loss"), value_of(wide.out, "train_loss")) << "float32 has other bits";
    for (const char* loss : {"train_loss", "held_out_loss"}) {
      const double expected = std::atof(value_of(cpu.out, loss).c_str());
      EXPECT_GT(expected, 0) << loss;
      // A ResNet of 4 channels has few numbers whose errors could cancel.
      EXPECT_NEAR(std::atof(value_of(cuda.out, loss).c_str()), expected, 0x1.0p-5 * expected) << loss;
    }
  }
}

TEST_F(OnCuda, a_checkpoint_continues_in_tf32_unless_its_bits_are_promised) {
  const auto training = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--model=mlp", "--data=synthetic", "--width=16", "--batch-size=8", "--schedule=constant",
                             "--warmup-steps=0", "--eval-samples=8", "--checkpoint-dir=" + (folder_ / name).string()});
    return on_fake(more);
  };
  for (const auto& [first, second] : {std::pair("fp32", "tf32"), {"tf32", "fp32"}}) {
    const std::string name = std::string("from-") + first;
    const std::string before = std::string("--precision=") + first, after = std::string("--precision=") + second;
    ASSERT_EQ(run_emulated(training(name, {"--steps=3", before})).code, 0);
    const Ended rest = run_emulated(training(name, {"--steps=6", after}));
    EXPECT_EQ(rest.code, 0) << rest.err;
    EXPECT_EQ(value_of(rest.out, "step"), "6");
  }
  ASSERT_EQ(run_emulated(training("bits", {"--steps=3", "--deterministic"})).code, 0);
  const Ended refused = run_emulated(training("bits", {"--steps=6", "--deterministic", "--precision=tf32"}));
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, ::testing::ContainsRegex("was computed with the numerics 'cuda/float32/.*', this run is "
                                                    "--deterministic with 'cuda/tf32/"));
}

TEST_F(OnCuda, no_other_precision_than_float32_is_left_for_the_cpu) {
  for (const std::string precision : {"--precision=tf32", "--precision=bf16"}) {
    const std::string sentence = precision + " needs a GPU; --precision=fp32 computes on the CPU: ";
    for (const Environment& environment :
         {Environment{{"FAKE_CUDA_DEVICES", "0"}}, Environment{{"FAKE_CUDA_CAPABILITY", "75"}}}) {
      const Ended none = run_emulated(on_fake(regression({precision}), "auto"), environment);
      EXPECT_EQ(none.code, 69) << none.err;
      EXPECT_THAT(none.err, ::testing::HasSubstr(sentence));
      EXPECT_EQ(std::count(none.err.begin(), none.err.end(), '\n'), 1) << none.err;
    }
    std::vector<std::string> lacks = without_cudnn("auto");
    lacks.push_back(precision);
    const Ended refused = run_emulated(lacks);
    EXPECT_EQ(refused.code, 69) << refused.err;
    EXPECT_THAT(refused.err, ::testing::HasSubstr(sentence + "layer 'conv1': no cuDNN can be loaded"));
  }
}

TEST_F(OnCuda, an_environment_that_forbids_tf32_contradicts_it) {
  const Environment forbids = {{"NVIDIA_TF32_OVERRIDE", "0"}};
  const Ended refused = run_emulated(on_fake(regression({"--precision=tf32"})), forbids);
  EXPECT_EQ(refused.code, 78);
  EXPECT_EQ(refused.err,
            "lockstep-trainer: --precision=tf32 contradicts the environment: NVIDIA_TF32_OVERRIDE=0 forbids TF32; "
            "unset it, or leave out --precision\n");
  EXPECT_EQ(run_emulated(on_fake(regression()), forbids).code, 0);
}

TEST_F(OnCuda, ranks_of_another_precision_are_told_apart_before_they_train) {
  const auto line = [&](const std::string& precision) {
    return testing::identity_line(folder_, on_fake(regression({"--precision=" + precision})), LOCKSTEP_TRAINER_CUDA);
  };
  EXPECT_EQ(testing::identity_difference(line("fp32"), line("bf16")), "precision");
  EXPECT_EQ(testing::identity_difference(line("fp32"), line("tf32")), "precision");
  const std::vector<rendezvous::IdentityRun> first = {{1, line("fp32")}}, second = {{1, line("tf32")}};
  const auto found = rendezvous::identity_difference({{0, &first}, {1, &second}});
  ASSERT_TRUE(found);
  EXPECT_THAT((std::vector{found->value, found->other_value}), ::testing::UnorderedElementsAre("fp32", "tf32"));
}

TEST_F(OnCuda, ranks_of_another_gpu_are_told_apart_before_they_train) {
  const auto line = [&](const std::string& backend, const Environment& environment) {
    return testing::identity_line(folder_, on_fake(regression(), backend), LOCKSTEP_TRAINER_CUDA, environment);
  };
  const std::string here = line("cuda", {});
  EXPECT_THAT(here, ::testing::HasSubstr(" gpu=cuda/float32/a_fake_of_a_GPU/sm-90/runtime-"));
  EXPECT_EQ(testing::identity_difference(here, line("cuda", {})), "none");
  EXPECT_EQ(testing::identity_difference(here, line("cuda", {{"FAKE_CUDA_CAPABILITY", "80"}})), "gpu");
  EXPECT_EQ(testing::identity_difference(here, line("cuda", {{"FAKE_CUDA_DRIVER", "13030"}})), "none")
      << "nodes get a newer driver while jobs run";
  EXPECT_EQ(testing::identity_difference(here, line("auto", {{"FAKE_CUDA_DEVICES", "0"}})), "none")
      << "each rank of --backend=auto chooses for itself";
}

TEST_F(OnCuda, a_gpu_that_breaks_ends_it_with_a_sentence_and_a_retryable_code) {
  // All 512 held-out samples, which come first, are one micro-batch.
  const std::vector<std::string> arguments = on_fake(regression({"--batch-size=512", "--micro-batch-size=512"}));
  bool in_update = false;
  for (int kernel = 0; !in_update; ++kernel) {  // each, until one is the first update's
    ASSERT_LT(kernel, 100) << "an update has no kernel";
    const std::string after = std::to_string(kernel);
    const Ended ended = run_emulated(arguments, {{"FAKE_CUDA_FAIL_AFTER", after}});
    EXPECT_EQ(ended.code, 75) << after << ": " << ended.err;
    EXPECT_THAT(ended.err, ::testing::ContainsRegex("lockstep-trainer: .*GPU 0 .* failed: ")) << after;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    in_update = ended.err.find("the optimizer's update did not end") != std::string::npos;
  }
}

TEST_F(OnCuda, without_a_usable_gpu_it_says_why_with_a_code_of_its_own) {
  struct Case {
    std::vector<std::string> arguments;
    Environment environment;
    std::string sentence;
  };
  std::vector<std::string> no_library = regression({"--backend=cuda", "--cudart-library=/nowhere/libcudart.so"});
  const std::vector<Case> cases = {
      {no_library, {}, "no CUDA runtime can be loaded"},
      {on_fake(regression()), {{"FAKE_CUDA_DEVICES", "0"}}, "GPU"},
      {on_fake(regression()), {{"FAKE_CUDA_DRIVER", "0"}}, "driver"},
      {on_fake(regression()), {{"FAKE_CUDA_DRIVER", "11040"}}, "driver"},
      {on_fake(regression()), {{"FAKE_CUDA_CAPABILITY", "75"}}, "has compute capability 7.5"},
      {on_fake(regression({"--precision=tf32"})), {{"FAKE_CUDA_CAPABILITY", "75"}}, "has compute capability 7.5"},
      {on_fake(regression()), {{"FAKE_CUDA_LAUNCH_ERROR", "35"}}, "cannot run this program's kernels: "},
      {on_fake(regression()), {{"FAKE_CUDA_LAUNCH_ERROR", "209"}}, "cannot run this program's kernels: "},
      {on_fake(regression()), {{"FAKE_CUDA_LAUNCH_ERROR", "222"}}, "cannot run this program's kernels: "},
  };
  for (const Case& each : cases) {
    const Ended ended = run_emulated(each.arguments, each.environment);
    EXPECT_EQ(ended.code, 69) << ended.err;
    EXPECT_THAT(ended.err, ::testing::HasSubstr(each.sentence));
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
}

TEST_F(OnCuda, too_little_memory_is_one_sentence_and_may_be_tried_again) {
  // For the backend; then for the replica.
  for (const char* mebibytes : {"1", "40"}) {
    const Ended ended = run_emulated(on_fake({"--model=mlp", "--data=synthetic", "--steps=1", "--width=1024"}),
                                     {{"FAKE_CUDA_MEMORY_MIB", mebibytes}});
    EXPECT_EQ(ended.code, 75) << mebibytes << ": " << ended.err;
    EXPECT_THAT(ended.err, ::testing::HasSubstr("the GPU has no room for ")) << mebibytes;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;  // it does not wait in vain
    if (mebibytes == std::string("1")) continue;
    EXPECT_THAT(ended.err, ::testing::ContainsRegex("the model with a micro-batch does not fit: .* of its 40 MiB are"));
  }
}

TEST_F(OnCuda, memory_of_a_process_that_has_just_ended_is_waited_for) {
  struct Case {
    const char* others;  // MiB
    const char* short_of;
  };
  const Case cases[] = {{"90", "the 32 MiB of the backend"}, {"63", "what the replica takes"}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.short_of);
    const Ended ended = run_emulated(
        on_fake({"--model=mlp", "--data=synthetic", "--steps=1", "--width=256", "--batch-size=2",
                 "--micro-batch-size=2", "--eval-samples=2"}),
        {{"FAKE_CUDA_MEMORY_MIB", "96"}, {"FAKE_CUDA_OTHERS_MIB", each.others}, {"FAKE_CUDA_OTHERS_LOOKS", "4"}});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.err, ::testing::ContainsRegex("waiting up to 20 s for .* of its 96 MiB are free"));
  }
}

TEST_F(OnCuda, a_model_that_it_cannot_compute_contradicts_the_flags) {
  const std::string words = (folder_ / "long.txt").string();
  std::ofstream(words) << std::string(100'000, 'a') << "b";
  for (const char* precision : {"fp32", "bf16"}) {
    for (const char* backend : {"cuda", "auto"}) {
      if (backend == std::string("auto") && precision == std::string("fp32")) continue;  // it computes on the CPU
      const Ended ended =
          run_emulated(on_fake({"--model=char-transformer", "--data=" + words, "--steps=1", "--layers=1", "--width=8",
                                "--heads=1", "--context=8193", "--batch-size=1", "--micro-batch-size=1",
                                "--eval-samples=1", std::string("--precision=") + precision},
                               backend));
      EXPECT_EQ(ended.code, 78) << backend << " " << precision << ": " << ended.err;
      EXPECT_THAT(ended.err, ::testing::HasSubstr("computes attention over at most 8192 positions, and this has 8193"));
    }
  }
}

TEST_F(OnCuda, without_cudnn_a_convolution_is_one_sentence_with_its_layers_name) {
  const Ended ended = run_emulated(without_cudnn("cuda"));
  EXPECT_EQ(ended.code, 69) << ended.err;
  EXPECT_THAT(ended.err, ::testing::ContainsRegex("layer 'conv1': no cuDNN can be loaded.*--cudnn-library"));
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
}

TEST_F(OnCuda, without_nccl_it_is_one_sentence_with_the_same_code) {
  const Ended ended = run_emulated(on_fake(regression({"--transport=nccl", "--nccl-library=/nowhere/libnccl.so"})));
  EXPECT_EQ(ended.code, 69) << ended.err;
  EXPECT_THAT(ended.err, ::testing::ContainsRegex("no NCCL can be loaded.*--nccl-library"));
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
}

TEST_F(OnCuda, auto_computes_on_a_gpu_where_it_can_and_says_what_it_chose) {
  const Ended gpu = run_emulated(on_fake(regression(), "auto"));
  ASSERT_EQ(gpu.code, 0) << gpu.err;
  EXPECT_THAT(gpu.out, ::testing::HasSubstr("--backend=auto computes on a GPU: cuda/float32/"));
  EXPECT_THAT(gpu.out, ::testing::HasSubstr("GPU 0 is GPU-00000000-0000-0000-0000-000000000000\n"));

  const std::vector<Environment> unusable = {
      {{"FAKE_CUDA_DEVICES", "0"}}, {{"FAKE_CUDA_CAPABILITY", "75"}}, {{"FAKE_CUDA_LAUNCH_ERROR", "35"}}};
  for (const Environment& environment : unusable) {
    const Ended none = run_emulated(on_fake(regression(), "auto"), environment);
    ASSERT_EQ(none.code, 0) << none.err;
    EXPECT_THAT(none.out, ::testing::HasSubstr("--backend=auto computes on the CPU: "));
  }

  const Ended lacks = run_emulated(without_cudnn("auto"));
  ASSERT_EQ(lacks.code, 0) << lacks.err;
  EXPECT_THAT(lacks.out, ::testing::HasSubstr("--backend=auto computes on the CPU: layer 'conv1': no cuDNN can be"));
}

// The program that is installed. Where it is built without the toolkit, or runs without a GPU, it says so.
TEST_F(OnCuda, the_program_itself_says_what_it_lacks) {
  const Ended cuda = run(regression({"--backend=cuda", "--cudart-library=/nowhere/libcudart.so"}));
  EXPECT_EQ(cuda.code, 69) << cuda.err;
  EXPECT_THAT(cuda.err, ::testing::AnyOf(::testing::HasSubstr("this program was built without CUDA kernels"),
                                         ::testing::HasSubstr("no CUDA runtime can be loaded")));
  EXPECT_EQ(std::count(cuda.err.begin(), cuda.err.end(), '\n'), 1) << cuda.err;
  const Ended automatic = run(regression({"--backend=auto", "--cudart-library=/nowhere/libcudart.so"}));
  EXPECT_EQ(automatic.code, 0) << automatic.err;
  EXPECT_THAT(automatic.out, ::testing::HasSubstr("--backend=auto computes on the CPU: "));
}

}  // namespace
}  // namespace lockstep::trainer
