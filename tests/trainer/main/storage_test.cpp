// Storage that does not answer (hanging_storage.cpp): which processes it ends, with which exit code, and which it only
// delays.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/main/played_gang.h"
#include "tests/trainer/models/image_folder.h"

namespace lockstep::trainer {
namespace {

using testing::Ended;
using testing::Environment;
using ::testing::HasSubstr;
using testing::PlayedGang;
using testing::Process;
using testing::value_of;

constexpr const char* kHasty = LOCKSTEP_TRAINER_HASTY;  // its checkpoints have a deadline of 1 s

// Closed as long as it exists; then the calls that wait at it go on.
class StorageGate {
 public:
  explicit StorageGate(std::string path) : path_(std::move(path)) { EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0); }
  ~StorageGate() {
    const UniqueFd open(::open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    ::unlink(path_.c_str());
  }
  StorageGate(const StorageGate&) = delete;
  StorageGate& operator=(const StorageGate&) = delete;

 private:
  const std::string path_;
};

class Storage : public testing::InFolder {
 protected:
  std::string checkpoints() const { return (folder_ / "checkpoints").string(); }
  std::string gate() const { return (folder_ / "gate").string(); }
  // Calls on paths that contain `part` hang while a StorageGate of gate() exists.
  Environment hanging(const std::string& part) const {
    return {{"LD_PRELOAD", LOCKSTEP_HANGING_STORAGE}, {"LOCKSTEP_HANGS", part}, {"LOCKSTEP_HANGS_WHILE", gate()}};
  }
  std::vector<std::string> saving(const std::string& every, int steps) const {
    return {"--model=linear-regression", "--steps=" + std::to_string(steps), "--log-every=1",
            "--checkpoint-dir=" + checkpoints(), "--checkpoint-every-steps=" + every};
  }
};

TEST_F(Storage, a_checkpoint_that_is_not_read_in_time_ends_the_process_with_82) {
  std::filesystem::create_directories(checkpoints() + "/step-5.g1");
  ASSERT_EQ(::mkfifo((checkpoints() + "/step-5.g1/manifest.json").c_str(), 0600), 0);
  const Ended ended =
      Process(folder_, "restoring", saving("5", 10),
              {{"LOCKSTEP_RESTORE", "step-5.g1"}, {"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}}, {.program = kHasty})
          .wait();
  EXPECT_EQ(ended.code, 82);
  EXPECT_THAT(ended.err, HasSubstr("takes longer than 1 s: is its storage there?"));
}

TEST_F(Storage, a_checkpoint_that_is_not_written_in_time_ends_the_process_with_82) {
  const StorageGate closed(gate());
  const Ended ended = Process(folder_, "saving", saving("5", 10), hanging("/step-5.g0"), {.program = kHasty}).wait();
  EXPECT_EQ(ended.code, 82);
  EXPECT_THAT(ended.err, HasSubstr("step-5.g0 is still being written after 1 s"));
}

TEST_F(Storage, a_best_checkpoint_that_is_not_looked_up_in_time_does_not_fail_the_run) {
  std::vector<std::string> arguments = saving("100", 60);
  arguments.insert(arguments.end(),
                   {"--keep-checkpoints=0", "--keep-best", "--eval-every=20", "--min-step-seconds=0.05"});
  Process process(folder_, "ending", arguments, {}, {.program = kHasty});
  ASSERT_TRUE(process.says("step 1/")) << process.err();
  std::filesystem::create_directories(checkpoints() + "/step-200.g9");
  ASSERT_EQ(::mkfifo((checkpoints() + "/step-200.g9/manifest.json").c_str(), 0600), 0);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("was not looked up: reading " + checkpoints() + " takes longer than 1 s"));
  EXPECT_EQ(value_of(ended.out, "step"), "60");
}

TEST_F(Storage, training_goes_on_while_a_checkpoint_hangs) {
  Ended ended;
  {
    auto gate_closed = std::make_unique<StorageGate>(gate());
    Process process(folder_, "training", saving("100", 150), hanging("/step-100.g0"));
    EXPECT_TRUE(process.says("step 149/")) << process.err();
    gate_closed.reset();
    ended = process.wait();
  }
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("checkpoint step-100.g0  digest ")) << "late, and whole";
}

TEST_F(Storage, a_rank_that_loses_a_peer_ends_while_its_checkpoint_hangs) {
  const StorageGate closed(gate());
  const std::vector<std::string> arguments = {"--model=mlp",
                                              "--width=16",
                                              "--steps=1000000",
                                              "--log-every=1",
                                              "--checkpoint-dir=" + checkpoints(),
                                              "--checkpoint-every-steps=5",
                                              "--min-step-seconds=0.01"};
  PlayedGang gang(folder_, 2, arguments, hanging("/step-5.g1"));
  gang.start_without_agents();
  ASSERT_TRUE(gang.process(0).says("step 6/"));
  gang.kill(1);
  const Ended ended = gang.wait()[0];
  EXPECT_EQ(ended.code, 80) << ended.err << "that of its reason to end, not of the storage";
}

TEST_F(Storage, a_rank_that_waits_for_samples_says_that_it_may_rest_and_goes_on) {
  const std::string images = testing::image_folder(folder_ / "images", 40, 20);
  const std::vector<std::string> arguments = {
      "--model=resnet18-cifar", "--data=" + images, "--width=4",      "--steps=40",
      "--batch-size=8",         "--log-every=1",    "--deterministic"};
  PlayedGang gang(folder_, 1, arguments, hanging("/images/train"));
  gang.start();
  ASSERT_TRUE(gang.process(0).says("step 2/"));
  auto closed = std::make_unique<StorageGate>(gate());
  const auto rests = [](const PlayedGang::WorkerMessage& it) {
    return it.activity && it.activity->doing == rendezvous::Activity::Doing::kLoading &&
           it.activity->may_rest_ms > 20'000;
  };
  const auto activity = gang.hears(0, rests).activity.value_or(rendezvous::Activity());
  EXPECT_LE(activity.may_rest_ms, 150'000) << "120 s, and 30 s to end by itself";
  closed.reset();
  const Ended ended = gang.wait()[0];
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(value_of(ended.out, "digest"), value_of(run(arguments).out, "digest")) << "no sample was lost";
}

// Peers wait 20 s for links, so a store that is slow for longer must not delay those.
TEST_F(Storage, a_replacement_connects_with_its_peers_before_it_has_read_its_data) {
  const std::string images = testing::image_folder(folder_ / "images", 40, 20);
  const std::vector<std::string> arguments = {
      "--model=resnet18-cifar", "--data=" + images, "--width=4",      "--steps=40",
      "--batch-size=8",         "--log-every=1",    "--deterministic"};
  PlayedGang gang(folder_, 2, arguments, hanging("/images/train"));
  gang.start();
  ASSERT_TRUE(gang.process(0).says("step 2/"));
  gang.kill(1);
  gang.hears_broken(0);
  auto closed = std::make_unique<StorageGate>(gate());
  gang.regroup(2);
  gang.join();
  gang.replace_the_dead();
  const auto linked = [](const PlayedGang::WorkerMessage& it) {
    EXPECT_FALSE(it.broken) << it.broken->message;
    return it.broken || (it.activity && it.activity->generation == 2 && it.activity->sequence > 0);
  };
  gang.hears(0, linked);
  closed.reset();
  gang.expect_up();
  const std::vector<Ended> ends = gang.wait();
  EXPECT_EQ(ends[0].code, 0) << ends[0].err;
  EXPECT_EQ(value_of(ends[0].out, "digest"), value_of(run(arguments).out, "digest"));
}

}  // namespace
}  // namespace lockstep::trainer
