// What ranks say of themselves before they train together: a rank with other settings is found by its line.
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/main/identity_line.h"
#include "tests/trainer/models/image_folder.h"

namespace lockstep::trainer {
namespace {

using testing::bound;
using testing::Ended;
using testing::Environment;
using ::testing::HasSubstr;
using testing::Process;

using Arguments = std::vector<std::string>;

class Identity : public testing::InFolder {
 protected:
  std::string line_of(const Arguments& arguments) { return testing::identity_line(folder_, arguments); }
  static std::string difference(const std::string& one, const std::string& other) {
    return testing::identity_difference(one, other);
  }

  static Arguments with(Arguments arguments, const Arguments& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

TEST_F(Identity, each_setting_that_ranks_must_share_is_compared_by_its_flag) {
  const Arguments mlp = {"--model=mlp", "--width=16", "--steps=100",
                         "--checkpoint-dir=" + (folder_ / "saved").string()};
  const Arguments step = {"--schedule=step", "--milestones=5"};
  const Arguments lars = {"--optimizer=lars", "--learning-rate=1"};
  const Arguments transformer = {"--model=char-transformer", "--steps=100"};
  struct Case {
    Arguments common;
    Arguments other;
    const char* field;
  };
  for (const Case& one : std::vector<Case>{
           {mlp, {"--batch-size=64"}, "batch-size"},
           {mlp, {"--micro-batch-size=8"}, "micro-batch-size"},
           {mlp, {"--width=32"}, "width"},
           {mlp, {"--seed=2"}, "seed"},
           {mlp, {"--model=linear-regression"}, "model"},
           {mlp, {"--optimizer=sgd", "--learning-rate=1"}, "optimizer"},
           {mlp, {"--learning-rate=0.5"}, "learning-rate"},
           {mlp, {"--weight-decay=0.5"}, "weight-decay"},
           {mlp, {"--warmup-steps=7"}, "warmup-steps"},
           {mlp, {"--clip-norm=0.5"}, "clip-norm"},
           {mlp, {"--steps=101", "--warmup-steps=5"}, "steps"},
           {mlp, {"--eval-every=7"}, "eval-every"},
           {mlp, {"--eval-samples=7"}, "eval-samples"},
           {mlp, {"--checkpoint-every-steps=7"}, "checkpoint-every-steps"},
           {mlp, {"--schedule=constant"}, "schedule"},
           {mlp, {"--backend=ref"}, "gradients"},
           {mlp, {"--deterministic"}, "numerics"},
           {with(mlp, step), {"--milestones=6"}, "milestones"},
           {with(mlp, step), {"--decay-factor=0.5"}, "decay-factor"},
           {with(mlp, {"--schedule=polynomial"}), {"--power=3"}, "power"},
           {with(mlp, lars), {"--momentum=0.5"}, "momentum"},
           {with(mlp, lars), {"--trust-coefficient=0.5"}, "trust-coefficient"},
           {with(mlp, {"--optimizer=sgd", "--learning-rate=1"}), {"--nesterov"}, "nesterov"},
       }) {
    Arguments changed = one.common;
    for (const std::string& flag : one.other) {  // a flag is given once
      const std::string name = flag.substr(0, flag.find('='));
      changed.erase(std::remove_if(changed.begin(), changed.end(),
                                   [&](const std::string& it) { return it.substr(0, it.find('=')) == name; }),
                    changed.end());
      if (flag == "--model=linear-regression") changed.erase(changed.begin());  // it has no --width
      changed.push_back(flag);
    }
    EXPECT_EQ(difference(line_of(one.common), line_of(changed)), one.field) << ::testing::PrintToString(one.other);
  }
  const std::string data = text("data"), other = text("other", 3000);
  EXPECT_EQ(difference(line_of(with(transformer, {"--data=" + data})), line_of(with(transformer, {"--data=" + other}))),
            "data");
  const Arguments images = {"--model=resnet18-cifar", "--data=" + testing::image_folder(folder_ / "images", 8, 4)};
  EXPECT_EQ(difference(line_of(images), line_of(with(images, {"--on-damage=skip"}))), "on-damage");
  EXPECT_EQ(difference(line_of(images), line_of(with(images, {"--on-damage=fail", "--prefetch=2"}))), "none");
  EXPECT_EQ(difference(line_of(mlp), line_of(with(mlp, {"--log-every=7", "--min-step-seconds=0.001"}))), "none");
}

TEST_F(Identity, versions_of_nccl_are_compared_where_it_is_used) {
  const Arguments mlp = {"--model=mlp", "--steps=3"};
  const Arguments over_nccl = with(mlp, {"--transport=nccl", std::string("--nccl-library=") + FAKE_NCCL_LIBRARY,
                                         std::string("--cudart-library=") + FAKE_NCCL_LIBRARY});
  const std::string newer = testing::identity_line(folder_, over_nccl, nullptr, {{"FAKE_NCCL_VERSION", "23007"}});
  EXPECT_EQ(difference(line_of(over_nccl), newer), "transport");
  EXPECT_THAT(newer, HasSubstr(" transport=nccl-23007 "));
  EXPECT_THAT(line_of(mlp), HasSubstr(" transport=ring "));
}

TEST_F(Identity, no_line_has_more_fields_or_longer_values_than_are_compared) {
  std::string milestones = "--milestones=1";
  for (int i = 2; i < 2000; ++i) milestones += "," + std::to_string(i);
  const Arguments longest = {"--model=char-transformer", "--data=" + text(),  "--deterministic", "--schedule=step",
                             "--optimizer=lars",         "--learning-rate=1", milestones};
  const std::string line = line_of(longest), other = line_of(with(longest, {"--width=64"}));
  EXPECT_LE(std::count(line.begin(), line.end(), '='), 32 - 1) << "with --backend=cuda there is one more";
  EXPECT_LE(line.size(), 4096U);
  EXPECT_EQ(difference(line, other), "width") << "the last field";
  Arguments later = longest;
  later.back() += ",2000";
  EXPECT_EQ(difference(line, line_of(later)), "milestones");
}

TEST_F(Identity, torchrun_ranks_with_another_batch_size_do_not_train) {
  int port = 0;
  const UniqueFd reserved = bound(&port);  // it does not listen, so rank 0 may
  Environment environment = {{"MASTER_ADDR", "127.0.0.1"},
                             {"MASTER_PORT", std::to_string(port)},
                             {"WORLD_SIZE", "2"},
                             {"LOCAL_WORLD_SIZE", "2"}};
  std::vector<std::unique_ptr<Process>> gang;
  for (int rank = 0; rank < 2; ++rank) {
    environment["RANK"] = environment["LOCAL_RANK"] = std::to_string(rank);
    gang.push_back(std::make_unique<Process>(
        folder_, "rank" + std::to_string(rank),
        Arguments{"--model=mlp", "--steps=3", "--batch-size=" + std::to_string(32 << rank)}, environment));
  }
  for (auto& process : gang) {
    const Ended ended = process->wait();
    EXPECT_EQ(ended.code, 78);
    EXPECT_THAT(ended.err, HasSubstr("all ranks must have the same batch-size: rank 1 has 64, rank 0 has 32"));
    EXPECT_EQ(ended.out, "");
  }
}

}  // namespace
}  // namespace lockstep::trainer
