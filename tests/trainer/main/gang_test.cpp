// Ranks as processes over the real ring: what the number of ranks may change.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "operator/base/unique_fd.h"
#include "tests/sanitizer.h"
#include "tests/trainer/main/process.h"
#include "tests/trainer/models/image_folder.h"

namespace lockstep::trainer {
namespace {

constexpr int kFifty = sanitizer::steps(50);

using testing::bound;
using testing::content;
using testing::Ended;
using testing::Environment;
using testing::Limits;
using testing::Process;
using testing::value_of;

// The text after each `before`, up to a space or the end of the line.
std::vector<std::string> all_after(const std::string& text, const std::string& before) {
  std::vector<std::string> found;
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at)) {
    at += before.size();
    found.push_back(text.substr(at, text.find_first_of(" ,\n", at) - at));
  }
  return found;
}

class Gang : public testing::InFolder {
 protected:
  struct Trained {
    std::vector<double> losses;         // by step, all digits
    std::vector<std::string> digests;   // of the state, by step
    std::string digest, held_out_loss;  // at the end
  };

  // Trains as a gang that agents would have started: two ranks to a pod (shared memory), TCP between pods. With a
  // checkpoint after every step, all ranks compare their states after every step, and end with 1 if they differ.
  Trained train(int ranks, std::vector<std::string> arguments, bool checkpoints = true) {
    std::string name = "gang-of-" + std::to_string(ranks), metrics = (folder_ / (name + ".jsonl")).string();
    std::filesystem::remove(metrics);
    std::filesystem::remove_all(folder_ / name);
    arguments.push_back("--metrics-file=" + metrics);
    Environment environment = {{"WORLD_SIZE", std::to_string(ranks)},
                               {"LOCKSTEP_JOB_UID", "uid-" + std::to_string(::getpid())},
                               {"LOCKSTEP_GENERATION", "1"},
                               {"LOCKSTEP_GENERATION_KEY", std::string(64, '5')}};
    if (checkpoints) {
      arguments.push_back("--checkpoint-every-steps=1");
      environment["LOCKSTEP_CHECKPOINT_DIR"] = (folder_ / name).string();
    }
    std::vector<UniqueFd> listeners;
    for (int rank = 0; rank < ranks; ++rank) {
      int port = 0;
      listeners.push_back(bound(&port));
      EXPECT_EQ(::listen(listeners.back().get(), 16), 0);
      const char* comma = rank == 0 ? "" : ",";
      environment["LOCKSTEP_PEERS"] += comma + ("127.0.0.1:" + std::to_string(port));
      environment["LOCKSTEP_MEMBERS"] += comma + std::to_string(rank / 2);
    }
    std::vector<std::unique_ptr<Process>> gang;
    for (int rank = 0; rank < ranks; ++rank) {
      int listener = listeners[static_cast<size_t>(rank)].get();
      environment["RANK"] = std::to_string(rank);
      environment["LOCAL_RANK"] = std::to_string(rank % 2);
      environment["LOCKSTEP_LISTEN_FD"] = std::to_string(listener);
      gang.push_back(std::make_unique<Process>(folder_, "rank" + std::to_string(rank), arguments, environment,
                                               Limits{.keep_fds = {listener}}));
    }
    Trained trained;
    for (auto& process : gang) {
      Ended ended = process->wait();
      EXPECT_EQ(ended.code, 0) << ended.err;
      if (process != gang.front()) continue;
      trained.digests = all_after(ended.out, "  digest ");
      trained.digest = value_of(ended.out, "digest");
      trained.held_out_loss = value_of(ended.out, "held_out_loss");
    }
    for (const std::string& loss : all_after(content(metrics), "\"loss\":")) {
      trained.losses.push_back(std::strtod(loss.c_str(), nullptr));
    }
    return trained;
  }

  std::vector<std::string> transformer(int steps) {
    return {"--model=char-transformer",
            "--data=" + text(),
            "--steps=" + std::to_string(steps),
            "--layers=2",
            "--width=32",
            "--context=32",
            "--dropout=0.1"};
  }
  std::vector<std::string> mlp(int steps) { return {"--model=mlp", "--steps=" + std::to_string(steps)}; }
};

TEST_F(Gang, losses_agree_to_1e_minus_5_for_1_2_and_4_ranks_bitwise_between_ranks) {
  for (const auto& arguments : {transformer(kFifty), mlp(kFifty)}) {
    Trained one = train(1, arguments);
    ASSERT_EQ(one.losses.size(), static_cast<size_t>(kFifty));
    EXPECT_LT(one.losses.back(), one.losses.front());
    for (int ranks : {2, 4}) {
      Trained many = train(ranks, arguments);
      ASSERT_EQ(many.losses.size(), static_cast<size_t>(kFifty));
      EXPECT_EQ(many.digests.size(), static_cast<size_t>(kFifty)) << "all ranks agreed after each of so many steps";
      double worst = 0;
      for (size_t i = 0; i < one.losses.size(); ++i) {
        worst = std::max(worst, std::fabs(many.losses[i] - one.losses[i]) / one.losses[i]);
      }
      std::printf("%s, 1 and %d ranks: largest relative difference of a loss %.1e\n", arguments[0].c_str(), ranks,
                  worst);
      EXPECT_LE(worst, 1e-5);
    }
  }
}

TEST_F(Gang, deterministic_digests_are_equal_after_every_step_for_1_to_4_ranks) {
  constexpr int kSteps = sanitizer::steps(10);
  for (auto arguments : {transformer(kSteps), mlp(kSteps)}) {
    arguments.push_back("--deterministic");
    Trained one = train(1, arguments);
    ASSERT_EQ(one.digests.size(), static_cast<size_t>(kSteps));
    EXPECT_NE(one.digests[kSteps - 2], one.digests[kSteps - 1]);
    for (int ranks : {2, 3, 4}) {
      Trained many = train(ranks, arguments);
      EXPECT_EQ(many.digests, one.digests) << ranks << " ranks";
      EXPECT_EQ(many.digest, one.digest);
      EXPECT_EQ(many.losses, one.losses);
      EXPECT_EQ(many.held_out_loss, one.held_out_loss);
    }
  }
}

TEST_F(Gang, each_network_for_photographs_has_the_same_digest_for_one_and_two_ranks) {
  const std::string files = testing::image_folder(folder_ / "photographs", 12, 4, testing::Kind::kPhotographs);
  for (const std::string model : {"resnet18", "resnet50", "mobilenet-v2", "vgg-a"}) {
    if (sanitizer::kOn && model != "resnet18") continue;  // they differ in layers, which other tests run
    for (const std::string& data : {std::string("synthetic"), files}) {
      SCOPED_TRACE(model + " " + data);
      std::vector<std::string> arguments = {"--model=" + model,     "--data=" + data,   "--image-size=32",
                                            "--classes=10",         "--steps=2",        "--batch-size=8",
                                            "--micro-batch-size=4", "--eval-samples=2", "--deterministic"};
      if (model.starts_with("resnet")) arguments.emplace_back("--width=8");
      const Trained one = train(1, arguments, false), two = train(2, arguments, false);
      ASSERT_EQ(one.losses.size(), 2U);
      EXPECT_EQ(two.digest, one.digest);
      EXPECT_EQ(two.losses, one.losses);
      EXPECT_EQ(two.held_out_loss, one.held_out_loss);
      EXPECT_FALSE(one.digest.empty());
      if (data != "synthetic") continue;
      arguments.emplace_back("--recompute=norm");
      EXPECT_EQ(train(2, arguments, false).digest, one.digest) << "--recompute=norm";
    }
  }
}

TEST_F(Gang, deterministic_digests_over_nccl_are_equal_after_every_step) {
  constexpr int kSteps = sanitizer::steps(10);
  std::vector<std::string> arguments = mlp(kSteps);
  arguments.push_back("--deterministic");
  Trained one = train(1, arguments);
  ASSERT_EQ(one.digests.size(), static_cast<size_t>(kSteps));
  arguments.insert(arguments.end(), {"--transport=nccl", std::string("--nccl-library=") + FAKE_NCCL_LIBRARY,
                                     std::string("--cudart-library=") + FAKE_NCCL_LIBRARY});
  for (int ranks : {2, 3}) {
    Trained many = train(ranks, arguments);
    EXPECT_EQ(many.digests, one.digests) << ranks << " ranks";
    EXPECT_EQ(many.losses, one.losses);
  }
}

TEST_F(Gang, little_shared_memory_for_nccl_is_told_before_peers_are_waited_for) {
  int port = 0;
  const UniqueFd reserved = bound(&port);
  const Process first(
      folder_, "first",
      {"--model=linear-regression", "--transport=nccl", std::string("--nccl-library=") + FAKE_NCCL_LIBRARY,
       std::string("--cudart-library=") + FAKE_NCCL_LIBRARY},
      {{"MASTER_ADDR", "127.0.0.1"},
       {"MASTER_PORT", std::to_string(port)},
       {"RANK", "0"},
       {"LOCAL_RANK", "0"},
       {"WORLD_SIZE", "1048576"},  // whose segments fit into no machine
       {"LOCAL_WORLD_SIZE", "1048576"}});
  EXPECT_TRUE(first.says(" for 1048576 ranks of one pod whose GPUs do not reach each other directly")) << first.err();
}

TEST_F(Gang, processes_started_as_torchrun_would_train_bitwise_identically) {
  std::vector<std::string> arguments = transformer(6);
  arguments.push_back("--deterministic");
  Ended alone = run(arguments);
  ASSERT_EQ(alone.code, 0) << alone.err;
  int port = 0;
  UniqueFd reserved = bound(&port);  // it does not listen, so rank 0 may
  Environment environment = {{"MASTER_ADDR", "127.0.0.1"},
                             {"MASTER_PORT", std::to_string(port)},
                             {"WORLD_SIZE", "3"},
                             {"LOCAL_WORLD_SIZE", "3"}};
  std::vector<std::unique_ptr<Process>> gang;
  for (int rank = 0; rank < 3; ++rank) {
    environment["RANK"] = environment["LOCAL_RANK"] = std::to_string(rank);
    gang.push_back(std::make_unique<Process>(folder_, "rank" + std::to_string(rank), arguments, environment));
  }
  for (auto& process : gang) {
    Ended ended = process->wait();
    EXPECT_EQ(ended.code, 0) << ended.err;
    if (process == gang.front()) {
      EXPECT_EQ(value_of(ended.out, "digest"), value_of(alone.out, "digest"));
      EXPECT_EQ(value_of(ended.out, "held_out_loss"), value_of(alone.out, "held_out_loss"));
    } else {
      EXPECT_EQ(ended.out, "") << "only rank 0 speaks";
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer
