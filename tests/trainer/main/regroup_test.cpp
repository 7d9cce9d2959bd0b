// Ranks that die, and the others, which keep their memory and go on: the result is that of a run in which nobody died.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/main/played_gang.h"

namespace lockstep::trainer {
namespace {

using ::testing::AnyOf;
using testing::Ended;
using testing::Environment;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::PlayedGang;
using testing::value_of;

constexpr size_t kRanks = 4;
constexpr int kSteps = 120;  // more than the gate lets pass before a test has done what it does

// The word that follows `before`, up to a space.
std::string value_after(const std::string& text, const std::string& before) {
  const size_t at = text.find(before);
  if (at == std::string::npos) return "";
  return text.substr(at + before.size(), text.find(' ', at + before.size()) - at - before.size());
}

class Regroup : public testing::InFolder {
 protected:
  std::vector<std::string> training(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"--model=mlp", "--width=64", "--steps=" + std::to_string(kSteps), "--deterministic",
                               "--log-every=1", "--eval-every=7"});
    return more;
  }
  std::string checkpoints() const { return (folder_ / "checkpoints").string(); }

  PlayedGang& start(const std::vector<std::string>& arguments, Environment environment = {}) {
    gang_ = std::make_unique<PlayedGang>(folder_, kRanks, arguments, std::move(environment));
    gang_->start();
    return *gang_;
  }
  // All ranks end well, with the bits and losses of a run of one rank that nobody disturbed.
  std::vector<Ended> expect_the_result_of_an_undisturbed_run() {
    std::vector<Ended> ends = gang_->wait();
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      EXPECT_EQ(ends[rank].code, 0) << "rank " << rank << ": " << ends[rank].err;
      EXPECT_THAT(ends[rank].out, Not(HasSubstr("restored")));
    }
    static const Ended alone = run(training());
    EXPECT_EQ(alone.code, 0) << alone.err;
    for (const char* key : {"digest", "step", "train_loss", "held_out_loss", "initial_held_out_loss"}) {
      EXPECT_EQ(value_of(ends[0].out, key), value_of(alone.out, key)) << key;
    }
    return ends;
  }
  // All ranks end generation 1 after the same step and wait for the next.
  void end_the_generation_by_agreement() {
    ASSERT_TRUE(gang_->process(0).says("step 5/"));
    gang_->yield({2});
    for (size_t rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(gang_->hears_broken(rank).yielded);
    gang_->regroup(2);
    EXPECT_FALSE(gang_->source().send);
  }
  static rendezvous::AgentMessage stop() {
    return {.kind = rendezvous::AgentMessage::Kind::kStop, .regroup = {}, .join = {}, .yields = 0};
  }
  // A rank that waits for a generation is told to stop, and tells of a checkpoint before its end.
  struct Stopped {
    rendezvous::CheckpointReport told;
    Ended ended;
  };
  Stopped stopped(size_t rank) {
    gang_->says(rank, stop());
    auto message = gang_->hears(rank, [](const PlayedGang::WorkerMessage& it) { return it.checkpoint.has_value(); });
    return {message.checkpoint.value_or(rendezvous::CheckpointReport()), gang_->process(rank).wait()};
  }
  std::unique_ptr<PlayedGang> gang_;
};

TEST_F(Regroup, each_rank_says_what_it_is_before_it_is_up) {
  PlayedGang& gang = start(training());
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_THAT(gang.identity(rank), ::testing::StartsWith("gradients=fp32 numerics=cpu/float32/onednn-"));
    EXPECT_THAT(gang.identity(rank), ::testing::EndsWith("/threads-1/micro-batch-4"));
  }
}

TEST_F(Regroup, a_rank_0_that_is_new_tells_how_far_the_others_had_come_before_it_does_a_step) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(0);
  for (size_t rank : {1U, 2U, 3U}) gang.hears_broken(rank);
  gang.regroup(2);
  const std::int64_t held = gang.source().version.step;
  gang.join();
  gang.replace_the_dead();
  auto first = gang.hears(0, [](const PlayedGang::WorkerMessage& it) { return it.progress.has_value(); });
  EXPECT_EQ(first.progress.value_or(rendezvous::Progress()).step, held);
  expect_the_result_of_an_undisturbed_run();
}

TEST_F(Regroup, a_rank_that_is_killed_is_replaced_and_the_others_lose_nothing) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(2);
  int suspects = 0;
  for (size_t rank : {0U, 1U, 3U}) {
    auto broken = gang.hears_broken(rank);
    EXPECT_EQ(broken.generation, 1);
    EXPECT_NE(broken.message, "");
    suspects += broken.suspect_rank == 2 ? 1 : 0;
  }
  EXPECT_GE(suspects, 1) << "a neighbour knows who it was";
  gang.form(2);
  auto ends = expect_the_result_of_an_undisturbed_run();  // of the processes that were there from the start
  EXPECT_THAT(ends[0].out, HasSubstr("regrouped into generation 2 at step "));
  EXPECT_THAT(ends[2].out, HasSubstr("received the state of step "));
  EXPECT_EQ(value_of(ends[0].out, "generation"), "2");
}

TEST_F(Regroup, ranks_that_are_asked_to_yield_end_the_same_step_and_nobody_needs_a_state) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.yield({2});
  std::vector<std::string> said;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    auto broken = gang.hears_broken(rank);
    EXPECT_TRUE(broken.yielded) << "rank " << rank;
    EXPECT_EQ(broken.suspect_rank, -1);
    said.push_back(broken.message);
  }
  EXPECT_THAT(said, ::testing::Each(said[0])) << "they name the step";
  gang.regroup(2);
  EXPECT_FALSE(gang.source().send);
  gang.join();
  gang.expect_up();
  auto ends = expect_the_result_of_an_undisturbed_run();
  EXPECT_THAT(ends[0].out, HasSubstr("regrouped into generation 2 at step "));
}

TEST_F(Regroup, a_wish_to_yield_an_earlier_generation_is_ignored) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(2);
  gang.form(2);
  ASSERT_TRUE(gang.process(0).says("regrouped into generation 2"));
  gang.yield({0, 1, 2, 3}, 1);
  expect_the_result_of_an_undisturbed_run();
}

TEST_F(Regroup, the_leader_may_die_and_its_replacement_leads) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(0);
  gang.form(2);
  auto ends = expect_the_result_of_an_undisturbed_run();
  EXPECT_THAT(ends[0].out, HasSubstr("received the state of step "));
  EXPECT_THAT(ends[0].out, HasSubstr("regrouped into generation 2 at step "));
}

TEST_F(Regroup, failures_one_after_the_other_are_survived) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(2);
  gang.form(2);
  ASSERT_TRUE(gang.process(0).says("regrouped into generation 2"));
  gang.kill(1);
  gang.form(3);
  ASSERT_TRUE(gang.process(0).says("regrouped into generation 3"));
  gang.kill(2);
  gang.form(4);
  expect_the_result_of_an_undisturbed_run();
}

TEST_F(Regroup, a_failure_before_the_join_is_survived) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(2);
  gang.regroup(2);
  gang.kill(3);
  gang.form(3);
  expect_the_result_of_an_undisturbed_run();
}

TEST_F(Regroup, a_failure_while_the_others_are_linking_is_survived) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(2);
  gang.regroup(2);
  gang.join();  // and nobody replaces rank 2
  gang.kill(3);
  gang.form(3);
  expect_the_result_of_an_undisturbed_run();
}

TEST_F(Regroup, all_but_one_may_die) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  for (size_t rank : {0U, 1U, 3U}) gang.kill(rank);
  gang.form(2);
  expect_the_result_of_an_undisturbed_run();
}

TEST_F(Regroup, a_regroup_of_a_gang_in_which_nobody_died_interrupts_it_and_sends_nothing_that_all_have) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.form(2);
  expect_the_result_of_an_undisturbed_run();
}

TEST_F(Regroup, a_gang_that_passes_time_between_steps_hears_of_a_regroup_at_once) {
  PlayedGang& gang = start(training({"--min-step-seconds=30"}));
  const auto begun = std::chrono::steady_clock::now();
  gang.form(2);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
}

TEST_F(Regroup, no_checkpoint_is_lost_and_the_new_ones_are_of_the_new_generation) {
  PlayedGang& gang = start(training({"--checkpoint-every-steps=10", "--keep-checkpoints=0"}),
                           {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(3);
  gang.form(2);
  auto ends = expect_the_result_of_an_undisturbed_run();
  std::set<int> steps;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints())) {
    EXPECT_TRUE(std::filesystem::exists(entry.path() / "manifest.json")) << entry.path();
    steps.insert(std::stoi(entry.path().filename().string().substr(5)));
  }
  for (int step = 10; step <= kSteps; step += 10) EXPECT_TRUE(steps.contains(step)) << "step " << step;
  std::string last = "step-" + std::to_string(kSteps) + ".g2";
  EXPECT_THAT(ends[0].out, HasSubstr("checkpoint " + last));
  Ended again = run(training({"--checkpoint-dir=" + checkpoints()}));
  EXPECT_THAT(again.out, HasSubstr("restored " + last));
  EXPECT_EQ(value_of(again.out, "digest"), value_of(ends[0].out, "digest"));
}

TEST_F(Regroup, the_replacement_of_a_leader_that_saved_goes_on_saving) {
  PlayedGang& gang = start(training({"--checkpoint-every-steps=10"}), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(0);
  gang.form(2);
  auto ends = expect_the_result_of_an_undisturbed_run();
  EXPECT_THAT(ends[0].out, HasSubstr("checkpoint step-" + std::to_string(kSteps) + ".g2"));
}

TEST_F(Regroup, the_wish_to_stop_is_heard_in_the_generation_after) {
  PlayedGang& gang = start(training(), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(1);
  gang.form(2);
  gang.says(2, rendezvous::AgentMessage{});
  for (const Ended& ended : gang.wait()) EXPECT_EQ(ended.code, 83) << ended.err;
}

// DESIGN 6.10: a leaver leaves at a step boundary, agreed in band, and costs the others no step.
TEST_F(Regroup, a_rank_that_is_told_to_end_leaves_after_a_step_and_the_others_keep_their_memory) {
  PlayedGang& gang = start(training(), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  Ended left = gang.leave(2);
  EXPECT_EQ(left.code, 83) << left.err;
  EXPECT_THAT(left.out, HasSubstr("left after step "));
  for (size_t rank : {0U, 1U, 3U}) {
    EXPECT_THAT(gang.hears_broken(rank).message, HasSubstr("1 of 4 ranks left after step "));
  }
  gang.form(2);
  auto ends = expect_the_result_of_an_undisturbed_run();
  EXPECT_THAT(ends[2].out, HasSubstr("received the state of step "));
  const std::string step = value_after(left.out, "left after step ");
  EXPECT_THAT(ends[0].out, HasSubstr("regrouped into generation 2 at step " + step + "\n"));
  EXPECT_TRUE(fs::exists(fs::path(checkpoints()) / ("step-" + step + ".g1") / "manifest.json"));
}

TEST_F(Regroup, when_all_are_told_to_end_all_stop_after_the_same_step) {
  PlayedGang& gang = start(training(), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  for (size_t rank = 0; rank < kRanks; ++rank) gang.process(rank).signal(SIGTERM);
  for (const Ended& ended : gang.wait()) EXPECT_EQ(ended.code, 83) << ended.err;
}

TEST_F(Regroup, the_wish_of_the_job_to_stop_comes_before_that_of_a_rank_to_leave) {
  PlayedGang& gang = start(training(), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  for (size_t rank = 0; rank < kRanks; ++rank) gang.says(rank, rendezvous::AgentMessage{});
  gang.process(1).signal(SIGTERM);
  auto ends = gang.wait();
  for (const Ended& ended : ends) EXPECT_EQ(ended.code, 83) << ended.err;
  EXPECT_THAT(ends[0].out, HasSubstr("stopped after step "));
}

TEST_F(Regroup, a_gang_without_agents_ends_when_a_rank_dies) {
  gang_ = std::make_unique<PlayedGang>(folder_, kRanks, training());
  gang_->start_without_agents();
  ASSERT_TRUE(gang_->process(0).says("step 5/"));
  gang_->kill(2);
  auto ends = gang_->wait();
  for (size_t rank : {0U, 1U, 3U}) EXPECT_EQ(ends[rank].code, 80) << ends[rank].err;
}

TEST_F(Regroup, who_waits_for_a_generation_may_be_stopped) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(1);
  gang.hears_broken(0);
  gang.process(0).signal(SIGTERM);
  Ended ended = gang.process(0).wait();
  EXPECT_EQ(ended.code, 83) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("stopped between generations"));
}

// Of the leader nothing is left but perhaps a checkpoint that it had begun.
TEST_F(Regroup, those_who_wait_for_a_generation_and_are_stopped_save_what_they_hold) {
  PlayedGang& gang = start(training(), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(0);
  for (size_t rank : {1U, 2U, 3U}) gang.hears_broken(rank);
  gang.regroup(2);
  const std::int64_t step = gang.source().version.step;
  ASSERT_GE(step, 5);
  for (size_t rank : {1U, 2U, 3U}) gang.says(rank, stop());
  // Who had not heard yet that the last step was complete holds the one before it.
  const auto name_of = [](std::int64_t of) { return "checkpoint step-" + std::to_string(of) + ".g1 "; };
  const std::string name = name_of(step);
  int saved = 0;
  for (size_t rank : {1U, 2U, 3U}) {
    Ended ended = gang.process(rank).wait();
    EXPECT_EQ(ended.code, 83) << ended.err;
    EXPECT_THAT(ended.out, AnyOf(HasSubstr(name), HasSubstr(name_of(step - 1))));
    saved += static_cast<int>(ended.out.find(name + " digest ") != std::string::npos);
  }
  EXPECT_GE(saved, 1) << "nobody may rely on the others alone";
  Ended again = run(training({"--checkpoint-dir=" + checkpoints()}));
  EXPECT_THAT(again.out, HasSubstr("restored step-" + std::to_string(step) + ".g1"));
  EXPECT_EQ(value_of(again.out, "digest"), value_of(run(training()).out, "digest"));
}

// Who was first to save it may be dead before its agent could tell anybody.
TEST_F(Regroup, of_a_checkpoint_that_several_hold_each_of_them_tells) {
  PlayedGang& gang = start(training(), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  end_the_generation_by_agreement();
  const auto first = stopped(1);
  const auto second = stopped(2);
  const std::string name = "step-" + std::to_string(gang.source().version.step) + ".g1";
  EXPECT_EQ(first.told.name, name);
  EXPECT_EQ(second.told, first.told);
  EXPECT_EQ(second.ended.code, 83) << second.ended.err;
}

TEST_F(Regroup, a_checkpoint_of_the_same_name_and_other_bits_is_not_told_of) {
  PlayedGang& gang = start(training(), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  end_the_generation_by_agreement();
  const std::string step = std::to_string(gang.source().version.step);
  const Ended other = run({"--model=mlp", "--seed=9", "--steps=" + step, "--checkpoint-dir=" + checkpoints()},
                          {{"LOCKSTEP_GENERATION", "1"}});
  EXPECT_THAT(other.out, HasSubstr("checkpoint step-" + step + ".g1 "));
  gang.says(1, stop());
  const Ended ended = gang.process(1).wait();
  EXPECT_THAT(ended.err, HasSubstr("is there already and holds another state"));
  EXPECT_THAT(ended.out, Not(HasSubstr("checkpoint step-")));
  EXPECT_NE(ended.code, 83);
}

TEST_F(Regroup, who_waits_for_a_generation_ends_when_its_agent_goes) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(1);
  gang.hears_broken(0);
  gang.hang_up(0);
  EXPECT_EQ(gang.process(0).wait().code, 75);
}

TEST_F(Regroup, a_state_of_other_bits_than_announced_is_not_trained_on) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(1);
  gang.regroup(2);
  auto from = gang.source();
  from.version.digest = from.version.digest == std::string(16, '0') ? std::string(16, '1') : std::string(16, '0');
  gang.join(from);
  gang.replace_the_dead(from);
  Ended ended = gang.process(static_cast<size_t>(from.rank)).wait();
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("the state of another rank cannot be taken"));
}

}  // namespace
}  // namespace lockstep::trainer
