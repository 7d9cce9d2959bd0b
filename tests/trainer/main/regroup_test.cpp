// Ranks that die, and the others, which keep their memory and continue: the result is that of an undisturbed run.
#include <gmock/gmock.h>

#include <algorithm>
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

  // A step takes 0.01 s at least, so that the gang still trains when a busy machine lets the test act.
  PlayedGang& start(std::vector<std::string> arguments, Environment environment = {}) {
    const auto paced = [](const std::string& argument) { return argument.rfind("--min-step-seconds=", 0) == 0; };
    if (std::none_of(arguments.begin(), arguments.end(), paced)) arguments.emplace_back("--min-step-seconds=0.01");
    gang_ = std::make_unique<PlayedGang>(folder_, kRanks, arguments, std::move(environment));
    gang_->start();
    return *gang_;
  }
  // All ranks succeed, with the weights and losses of an undisturbed run of one rank.
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
  // A rank that waits for a generation gets a stop, and reports a checkpoint before its end.
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

TEST_F(Regroup, each_rank_says_its_identity_before_it_is_up) {
  PlayedGang& gang = start(training());
  for (size_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_THAT(gang.identity(rank), HasSubstr(" gradients=fp32 "));
    EXPECT_THAT(gang.identity(rank), HasSubstr(" numerics=cpu/float32/onednn-"));
    EXPECT_THAT(gang.identity(rank), HasSubstr("/threads-1/micro-batch-4 "));
  }
}

TEST_F(Regroup, a_rank_that_reads_a_checkpoint_says_how_long_that_may_take) {
  const std::filesystem::path folder = folder_ / "checkpoints" / "step-5.g1";
  std::filesystem::create_directories(folder);
  ASSERT_EQ(::mkfifo((folder / "manifest.json").c_str(), 0600), 0);  // a storage that does not answer
  gang_ = std::make_unique<PlayedGang>(
      folder_, kRanks, training(),
      Environment{{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}, {"LOCKSTEP_RESTORE", "step-5.g1"}});
  gang_->replace_the_dead({});
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const auto rests = [](const PlayedGang::WorkerMessage& it) { return it.activity && it.activity->may_rest_ms >= 0; };
    const auto activity = gang_->hears(rank, rests).activity.value_or(rendezvous::Activity());
    EXPECT_EQ(activity.doing, rendezvous::Activity::Doing::kStarting);
    EXPECT_GT(activity.may_rest_ms, 20'000);
    EXPECT_LE(activity.may_rest_ms, 151'000) << "120 s for a small state, and 30 s to end by itself";
  }
}

TEST_F(Regroup, a_new_rank_0_reports_the_others_step_before_its_own) {
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

TEST_F(Regroup, ranks_asked_to_yield_end_after_the_same_step_with_one_state) {
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

TEST_F(Regroup, a_leader_that_is_replaced_ends_early_after_the_same_evaluation) {
  std::vector<std::string> arguments = {"--model=linear-regression",
                                        "--steps=4000",
                                        "--deterministic",
                                        "--log-every=1",
                                        "--schedule=constant",
                                        "--eval-every=2",
                                        "--early-stop-evaluations=30"};
  const Ended alone = run(arguments);
  ASSERT_EQ(alone.code, 0) << alone.err;
  arguments.emplace_back("--min-step-seconds=0.02");  // progress is told four times a second
  PlayedGang& gang = start(arguments);
  const std::int64_t best = std::stol(value_of(alone.out, "best_step"));
  gang.hears(0, [&](const PlayedGang::WorkerMessage& it) { return it.progress && it.progress->step > best; });
  gang.kill(0);
  gang.form(2);
  const std::vector<Ended> ends = gang.wait();
  for (const Ended& ended : ends) EXPECT_EQ(ended.code, 0) << ended.err;
  for (const char* key : {"step", "digest", "best_step", "best_held_out_loss"}) {
    EXPECT_EQ(value_of(ends[0].out, key), value_of(alone.out, key)) << key;
  }
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
  gang.join();  // and rank 2 is not replaced
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

TEST_F(Regroup, a_regroup_without_a_death_interrupts_and_transfers_no_state) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.form(2);
  expect_the_result_of_an_undisturbed_run();
}

TEST_F(Regroup, a_gang_that_passes_time_between_steps_learns_of_a_regroup_at_once) {
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

TEST_F(Regroup, the_replacement_of_the_leading_rank_continues_to_save) {
  PlayedGang& gang = start(training({"--checkpoint-every-steps=10"}), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(0);
  gang.form(2);
  auto ends = expect_the_result_of_an_undisturbed_run();
  EXPECT_THAT(ends[0].out, HasSubstr("checkpoint step-" + std::to_string(kSteps) + ".g2"));
}

TEST_F(Regroup, a_stop_request_holds_in_the_next_generation) {
  PlayedGang& gang = start(training(), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(1);
  gang.form(2);
  gang.says(2, rendezvous::AgentMessage{});
  for (const Ended& ended : gang.wait()) EXPECT_EQ(ended.code, 83) << ended.err;
}

// Rule 11 of operator/rendezvous/README.md: a leaver leaves after a step on which all agree, and costs no step.
TEST_F(Regroup, a_rank_told_to_end_leaves_after_a_step_and_others_keep_state) {
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

TEST_F(Regroup, a_stop_of_the_job_precedes_the_leave_of_a_rank) {
  // All ranks wait between two steps, so that the ranks agree on both wishes in one step.
  PlayedGang& gang = start(training({"--min-step-seconds=1"}), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  ASSERT_TRUE(gang.process(0).says("step 1/"));
  for (size_t rank = 0; rank < kRanks; ++rank) {
    if (rank != 1) gang.is_obeyed(rank, stop());
  }
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

TEST_F(Regroup, a_rank_that_waits_for_a_generation_can_be_stopped) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(1);
  gang.hears_broken(0);
  gang.process(0).signal(SIGTERM);
  Ended ended = gang.process(0).wait();
  EXPECT_EQ(ended.code, 83) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("stopped between generations"));
}

// The leader leaves nothing but perhaps a checkpoint in progress.
TEST_F(Regroup, ranks_stopped_while_they_wait_save_their_state) {
  PlayedGang& gang = start(training(), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(0);
  for (size_t rank : {1U, 2U, 3U}) gang.hears_broken(rank);
  gang.regroup(2);
  const std::int64_t step = gang.source().version.step;
  ASSERT_GE(step, 5);
  for (size_t rank : {1U, 2U, 3U}) gang.says(rank, stop());
  // A rank that did not learn yet that the last step was complete holds the previous one.
  const auto name_of = [](std::int64_t of) { return "checkpoint step-" + std::to_string(of) + ".g1 "; };
  const std::string name = name_of(step);
  int saved = 0;
  for (size_t rank : {1U, 2U, 3U}) {
    Ended ended = gang.process(rank).wait();
    EXPECT_EQ(ended.code, 83) << ended.err;
    EXPECT_THAT(ended.out, AnyOf(HasSubstr(name), HasSubstr(name_of(step - 1))));
    saved += static_cast<int>(ended.out.find(name + " digest ") != std::string::npos);
  }
  EXPECT_GE(saved, 1) << "no rank may rely on the others alone";
  Ended again = run(training({"--checkpoint-dir=" + checkpoints()}));
  EXPECT_THAT(again.out, HasSubstr("restored step-" + std::to_string(step) + ".g1"));
  EXPECT_EQ(value_of(again.out, "digest"), value_of(run(training()).out, "digest"));
}

// The rank that saved it first may die before its agent could report it.
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

TEST_F(Regroup, a_checkpoint_of_the_same_name_and_another_state_is_not_reported) {
  PlayedGang& gang = start(training(), {{"LOCKSTEP_CHECKPOINT_DIR", checkpoints()}});
  end_the_generation_by_agreement();
  const std::string step = std::to_string(gang.source().version.step);
  const Ended other = run({"--model=mlp", "--seed=9", "--steps=" + step, "--checkpoint-dir=" + checkpoints()},
                          {{"LOCKSTEP_GENERATION", "1"}});
  EXPECT_THAT(other.out, HasSubstr("checkpoint step-" + step + ".g1 "));
  gang.says(1, stop());
  const Ended ended = gang.process(1).wait();
  EXPECT_THAT(ended.err, HasSubstr("exists already and holds another state"));
  EXPECT_THAT(ended.out, Not(HasSubstr("checkpoint step-")));
  EXPECT_NE(ended.code, 83);
}

TEST_F(Regroup, a_rank_that_waits_for_a_generation_ends_with_its_agent) {
  PlayedGang& gang = start(training());
  ASSERT_TRUE(gang.process(0).says("step 5/"));
  gang.kill(1);
  gang.hears_broken(0);
  gang.hang_up(0);
  EXPECT_EQ(gang.process(0).wait().code, 75);
}

TEST_F(Regroup, a_state_that_differs_from_the_announced_digest_is_refused) {
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
  EXPECT_THAT(ended.err, HasSubstr("the state of another rank cannot be installed"));
}

}  // namespace
}  // namespace lockstep::trainer
