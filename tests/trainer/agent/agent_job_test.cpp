// Whole jobs: real agents as processes, a real coordinator, workers that know nothing of either.
#include <algorithm>
#include <set>

#include "tests/trainer/agent/agents.h"
#include "trainer/agent/offer.h"

namespace lockstep::trainer::agent {
namespace {

using rv::Phase;
using std::chrono::steady_clock;

TEST_F(AgentJobTest, four_members_form_a_generation_and_re_form_after_a_kill) {
  start_job(4, 1, shell_worker("exec sleep 100"));
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  ASSERT_TRUE(eventually([&](const auto&) { return started(1).size() == 4; }));
  std::set<int> ranks;
  for (const Started& one : started(1)) ranks.insert(one.rank);
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2, 3}));

  const Started victim = started(1)[2];
  const auto killed = steady_clock::now();
  ASSERT_EQ(::kill(victim.pid, SIGKILL), 0);
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  const rv::Failure failure = *coordinator->view("uid")->failure;
  EXPECT_EQ(failure.cause, api::Cause::kProcessSignal);
  EXPECT_EQ(failure.rank, victim.rank);
  EXPECT_EQ(failure.exit_code, 137);
  handled(1);
  ASSERT_TRUE(reaches(Phase::kUp, 2));
  const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - killed);
  ASSERT_TRUE(eventually([&](const auto&) { return started(2).size() == 4; }));
  std::cout << "kill -9 to the next generation up: " << took.count() << " ms (agree "
            << coordinator->view("uid")->times.agree_ms << ", start " << coordinator->view("uid")->times.start_ms
            << ")\n";
  EXPECT_LT(took, seconds(20)) << "a second on a machine that has it to spare";
  for (const Started& one : started(1)) EXPECT_FALSE(is_alive(one.pid));
}

TEST_F(AgentJobTest, all_zero_exits_finish_the_job_and_the_agents_leave_with_zero) {
  start_job(2, 2, shell_worker("exit 0"));
  ASSERT_TRUE(reaches(Phase::kFinished, 1));
  for (const auto& one : agents) EXPECT_EQ(one->wait(), 0);
  EXPECT_TRUE(store.record("uid").finished);
  EXPECT_EQ(started(1).size(), 4U);
}

TEST_F(AgentJobTest, an_agent_names_the_interface_of_its_pods_address_to_nccl) {
  ::unsetenv("NCCL_SOCKET_IFNAME");  // the agent inherits this program's environment
  ::unsetenv("NCCL_HOSTID");
  start_job(1, 1, {"bash", "-c", "echo $NCCL_SOCKET_IFNAME $NCCL_HOSTID >> $OUT"});
  ASSERT_TRUE(reaches(Phase::kFinished, 1));
  EXPECT_EQ(agents[0]->wait(), 0);
  EXPECT_EQ(contents(folder / "workers"), "=" + interface_of("127.0.0.1") + " uid-of-a-1234-0-1\n");
}

TEST_F(AgentJobTest, a_coordinator_that_dies_and_comes_back_does_not_disturb_the_workers) {
  start_job(3, 1, shell_worker("exec sleep 100"));
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  ASSERT_TRUE(eventually([&](const auto&) { return started(1).size() == 3; }));
  for (std::int64_t term = 2; term <= 3; ++term) {
    coordinator.reset();
    start_coordinator(term);
    coordinator->set_job(plan);
    ASSERT_TRUE(reaches(Phase::kUp, 1));
  }
  EXPECT_EQ(started(1).size(), 3U);
  EXPECT_TRUE(started(2).empty());
  for (const Started& one : started(1)) EXPECT_TRUE(is_alive(one.pid));
  // And it is in charge again.
  ::kill(started(1)[0].pid, SIGKILL);
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  handled(1);
  ASSERT_TRUE(reaches(Phase::kUp, 2));
}

TEST_F(AgentJobTest, an_agent_logs_a_lost_coordinator_once_and_its_return_once) {
  start_job(1, 1, shell_worker("exec sleep 100"));
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  const auto said = [&](const char* sentence) {
    const auto lines = lines_of(output(0));
    return std::count_if(lines.begin(), lines.end(), [&](const auto& it) { return it.find(sentence) != it.npos; });
  };
  coordinator.reset();
  start_coordinator(2);
  coordinator->set_job(plan);
  EXPECT_TRUE(eventually([&](const auto&) { return said("connected to the coordinator again after ") == 1; }));
  EXPECT_EQ(said("the connection to the coordinator is lost, trying again: "), 1) << output(0);
}

TEST_F(AgentJobTest, a_death_without_coordinator_is_reported_to_the_next_one) {
  start_job(2, 1, shell_worker("exec sleep 100"));
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  ASSERT_TRUE(eventually([&](const auto&) { return started(1).size() == 2; }));
  coordinator.reset();
  ::kill(started(1)[0].pid, SIGKILL);
  start_coordinator(2);
  coordinator->set_job(plan);
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  EXPECT_EQ(coordinator->view("uid")->failure->cause, api::Cause::kProcessSignal);
  EXPECT_EQ(coordinator->view("uid")->failure->rank, started(1)[0].rank);
}

TEST_F(AgentJobTest, a_killed_agent_takes_its_workers_along_and_its_replacement_joins) {
  start_job(2, 2, shell_worker("exec sleep 100"));
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  ASSERT_TRUE(eventually([&](const auto&) { return started(1).size() == 4; }));
  agents[1]->signal(SIGKILL);
  agents[1]->wait();
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  EXPECT_EQ(coordinator->view("uid")->failure->cause, api::Cause::kMemberLost);
  EXPECT_EQ(coordinator->view("uid")->failure->slot, 1);
  for (const Started& one : started(1)) {
    if (one.rank < 2) continue;
    EXPECT_TRUE(eventually([&](const auto&) { return !is_alive(one.pid); }));
  }
  plan.members[1] = expected(1, 2);
  handled(1);
  EXPECT_TRUE(eventually([](const rv::JobView& view) { return view.message == "waiting for slot 1 to connect"; }));
  agents[1] = agent(shell_worker("exec sleep 100"), environment(1, 2), 1);
  ASSERT_TRUE(reaches(Phase::kUp, 2));
}

TEST_F(AgentJobTest, a_stopped_process_is_named_and_ended_even_if_it_ignores_sigabrt) {
  plan.deadlines.progress_seconds = 1;
  plan.deadlines.watch_reports = true;
  start_job(2, 1,
            {"bash", "-c",
             "echo $RANK $LOCKSTEP_GENERATION $$ >> $OUT; [ $RANK = 0 ] && exec sleep 100; trap '' ABRT; "
             "for step in 1 2 3; do echo '{\"progress\":{\"step\":'$step'}}' >&$LOCKSTEP_AGENT_FD; sleep 0.3; done; "
             "kill -STOP $$; exec sleep 100"});
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  const rv::Failure failure = *coordinator->view("uid")->failure;
  EXPECT_EQ(failure.cause, api::Cause::kHang);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.signal, SIGKILL);
  EXPECT_NE(failure.message.find("rank 1 (slot 1) has not moved for"), std::string::npos) << failure.message;
  EXPECT_NE(failure.message.find("it is stopped (state T)"), std::string::npos) << failure.message;
}

TEST_F(AgentJobTest, stop_ends_the_workers_and_the_agents_leave_with_zero) {
  // The trap stands before the worker says that it has started.
  start_job(2, 1,
            {"sh", "-c",
             "trap 'echo bye; exit 7' TERM; echo $RANK $LOCKSTEP_GENERATION $$ >> $OUT; "
             "while :; do sleep 0.05; done"});
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  ASSERT_TRUE(eventually([&](const auto&) { return started(1).size() == 2; }));
  plan.stop = true;
  coordinator->set_job(plan);
  ASSERT_TRUE(eventually([](const rv::JobView& view) { return view.phase == Phase::kStopped; }));
  for (const auto& one : agents) EXPECT_EQ(one->wait(), 0);
  EXPECT_NE(output(0).find("[0] bye\n"), std::string::npos);
}

TEST_F(AgentJobTest, a_failed_job_gives_its_exit_code_to_the_agents) {
  start_job(2, 1, shell_worker("echo it went wrong >&2; [ $RANK = 1 ] && exit 3; exec sleep 100"));
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  const rv::Failure failure = *coordinator->view("uid")->failure;
  EXPECT_EQ(failure.message, "rank 1 exited with code 3\nit went wrong\n");
  plan.stop = true;
  coordinator->set_job(plan);
  for (const auto& one : agents) EXPECT_EQ(one->wait(), 3);
}

TEST_F(AgentJobTest, a_command_that_does_not_exist_is_named_with_the_path) {
  start_job(1, 1, {"no-such-command", "--flag"});
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  const rv::Failure failure = *coordinator->view("uid")->failure;
  EXPECT_EQ(failure.cause, api::Cause::kCommandNotFound);
  EXPECT_EQ(failure.exit_code, 127);
  EXPECT_EQ(failure.message.find("the command \"no-such-command\" was not found in $PATH (/"), 0U) << failure.message;
}

TEST_F(AgentJobTest, a_file_that_may_not_be_executed_is_named) {
  std::ofstream(folder / "data") << "not a program";
  start_job(1, 1, {folder / "data"});
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  EXPECT_EQ(coordinator->view("uid")->failure->exit_code, 126);
  EXPECT_EQ(coordinator->view("uid")->failure->cause, api::Cause::kCommandNotFound);
}

TEST_F(AgentJobTest, a_fixed_port_that_is_taken_is_named) {
  plan.port = port;  // the coordinator's own
  start_job(1, 1, shell_worker("exit 0"));
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  EXPECT_EQ(coordinator->view("uid")->failure->cause, api::Cause::kPortInUse);
  EXPECT_NE(coordinator->view("uid")->failure->message.find(std::to_string(port)), std::string::npos);
}

TEST_F(AgentJobTest, children_of_workers_are_gone_before_the_next_generation) {
  // The worker leaves a child in a session of its own that ignores SIGTERM.
  start_job(1, 1,
            {"sh", "-c",
             "setsid sh -c 'trap \"\" TERM; echo child $$ >> $OUT.children; while :; do sleep 0.05; done' & "
             "echo $RANK $LOCKSTEP_GENERATION $$ >> $OUT; exec sleep 100"});
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  ASSERT_TRUE(eventually(
      [&](const auto&) { return started(1).size() == 1 && !contents(folder / "workers.children").empty(); }));
  const pid_t child = std::stoi(contents(folder / "workers.children").substr(6));
  ::kill(started(1)[0].pid, SIGKILL);
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  handled(1);
  ASSERT_TRUE(reaches(Phase::kUp, 2));
  EXPECT_FALSE(is_alive(child));
  // Nor does the agent leave the second one behind when it is told to end.
  pid_t second = -1;
  ASSERT_TRUE(eventually([&](const auto&) {
    const std::string text = contents(folder / "workers.children");
    const auto at = text.rfind("child ");
    if (text.empty() || text.back() != '\n' || at == 0) return false;
    second = std::stoi(text.substr(at + 6));
    return true;
  }));
  agents[0]->signal(SIGTERM);
  EXPECT_EQ(agents[0]->wait(), 143);
  EXPECT_FALSE(is_alive(second));
}

TEST_F(AgentJobTest, a_signal_to_the_agent_ends_the_worker_and_is_no_fault_of_it) {
  start_job(2, 1, shell_worker("exec sleep 100"));
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  ASSERT_TRUE(eventually([&](const auto&) { return started(1).size() == 2; }));
  agents[1]->signal(SIGTERM);
  EXPECT_EQ(agents[1]->wait(), 143);
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  EXPECT_EQ(coordinator->view("uid")->failure->cause, api::Cause::kStopped);
  EXPECT_EQ(coordinator->view("uid")->failure->slot, 1);
}

TEST_F(AgentJobTest, other_signals_are_passed_on_to_the_workers) {
  start_job(1, 1, shell_worker("trap 'echo got it' USR1; trap 'exit 0' HUP; echo ready; while :; do sleep 0.05; done"));
  ASSERT_TRUE(eventually([&](const auto&) { return output(0).find("[0] ready\n") != std::string::npos; }));
  agents[0]->signal(SIGUSR1);
  ASSERT_TRUE(eventually([&](const auto&) { return output(0).find("[0] got it\n") != std::string::npos; }));
  agents[0]->signal(SIGHUP);
  EXPECT_EQ(agents[0]->wait(), 0);
}

TEST_F(AgentJobTest, an_agent_with_a_wrong_token_stays_outside) {
  plan.slots = 1;
  plan.members = {expected(0)};
  coordinator->set_job(plan);
  auto variables = environment(0);
  std::ofstream(variables[rv::kEnvTokenFile]) << "stolen";
  agents.push_back(agent(shell_worker("exit 0"), variables, 0));
  ASSERT_TRUE(eventually([](const rv::JobView& view) { return !view.refused.empty(); }));
  EXPECT_EQ(coordinator->view("uid")->phase, Phase::kWaiting);
  EXPECT_TRUE(started(1).empty());
  // The kubelet replaces the token, and the agent reads it again.
  environment(0);
  ASSERT_TRUE(reaches(Phase::kFinished, 1));
}

TEST_F(AgentJobTest, an_agent_of_an_older_incarnation_is_told_to_go) {
  plan.slots = 1;
  plan.members = {expected(0, 2)};
  coordinator->set_job(plan);
  agents.push_back(agent(shell_worker("exit 0"), environment(0, 1), 0));
  EXPECT_EQ(agents[0]->wait(), 1);
  EXPECT_NE(output(0).find("slot 0 was given to incarnation 2"), std::string::npos);
}

TEST_F(AgentJobTest, a_flood_of_output_arrives_whole_and_does_not_cost_the_connection) {
  start_job(1, 2, {"sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo line $i of the flood; i=$((i+1)); done"});
  ASSERT_TRUE(reaches(Phase::kFinished, 1));
  EXPECT_EQ(agents[0]->wait(), 0);
  std::map<std::string, int> next;
  for (const std::string& line : lines_of(output(0))) {
    if (line.empty() || line[0] != '[') continue;
    const std::string rank = line.substr(0, 3);
    ASSERT_EQ(line, fmt::format("{} line {} of the flood", rank, next[rank]));
    ++next[rank];
  }
  EXPECT_EQ(next["[0]"], 20'000);
  EXPECT_EQ(next["[1]"], 20'000);
}

// It cannot be regrouped: what it did before the first generation is ended, and it starts again in it.
TEST_F(AgentJobTest, a_linked_worker_is_up_when_it_says_so_and_its_checkpoint_is_restored) {
  rv::WorkerMessage up, progress, checkpoint;
  up.up = true;
  progress.progress =
      rv::Progress{.step = 7, .total_steps = 100, .epoch = 0, .loss = 1.5, .samples_per_second = 10, .eta_seconds = 9};
  checkpoint.checkpoint = rv::CheckpointReport{"step-5.g1", 5, 1, "abcd"};
  std::ofstream(folder / "messages") << rv::encode(up) << rv::encode(progress) << rv::encode(checkpoint);
  plan.kind = rv::Kind::kLockstep;
  plan.program.checkpoint_path = "/nowhere";
  start_job(1, 1,
            {"bash", "-c",
             "[ -n \"$LOCKSTEP_STANDBY\" ] && { echo '{\"up\":{}}' >&$LOCKSTEP_AGENT_FD; exec sleep 100; }; "
             "echo $RANK $LOCKSTEP_GENERATION $$ >> $OUT; "
             "[ -S /proc/self/fd/$LOCKSTEP_LISTEN_FD ] && echo listening, restore=$LOCKSTEP_RESTORE; while [ ! -e "
             "$OUT.go ]; do sleep 0.02; done; cat " +
                 (folder / "messages") + " >&$LOCKSTEP_AGENT_FD; exec sleep 100"});
  ASSERT_TRUE(eventually([&](const auto&) { return started(1).size() == 1; }));
  EXPECT_TRUE(reaches(Phase::kStarting, 1));
  std::ofstream(folder / "workers.go") << "go";
  ASSERT_TRUE(eventually([](const rv::JobView& view) {
    return view.phase == Phase::kUp && view.progress.step == 7 && view.newest_checkpoint &&
           view.newest_checkpoint->name == "step-5.g1";
  }));
  ::kill(started(1)[0].pid, SIGKILL);
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  EXPECT_EQ(coordinator->view("uid")->failure->step, 7);
  handled(1);
  ASSERT_TRUE(reaches(Phase::kUp, 2));
  // What a worker prints and what it says on its link take different ways.
  const auto prints = [&](const std::string& text) {
    return eventually([&](const auto&) { return output(0).find(text) != std::string::npos; });
  };
  EXPECT_TRUE(prints("[0] listening, restore=\n"));
  EXPECT_TRUE(prints("[0] listening, restore=step-5.g1\n"));
}

TEST_F(AgentJobTest, a_torchrun_style_program_runs_unchanged_and_survives_a_kill) {
  start_job(2, 2, {"sh", "-c", "echo $RANK $LOCKSTEP_GENERATION $$ >> $OUT; exec " TORCHRUN_STYLE " 40 25"});
  ASSERT_TRUE(reaches(Phase::kUp, 1));
  ASSERT_TRUE(eventually([&](const auto&) { return started(1).size() == 4; }));
  ::usleep(300'000);  // into its steps
  Started victim;
  for (const Started& one : started(1)) {
    if (one.rank == 3) victim = one;
  }
  // Its peers leave when they lose it. News of those on the other pod may not overtake the kill, however the machine
  // shares out its time. A plain exit code is believed after 100 ms.
  agents[0]->signal(SIGSTOP);
  ::kill(victim.pid, SIGKILL);
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  agents[0]->signal(SIGCONT);
  EXPECT_EQ(coordinator->view("uid")->failure->rank, 3);
  EXPECT_EQ(coordinator->view("uid")->failure->cause, api::Cause::kProcessSignal);
  handled(1);
  ASSERT_TRUE(reaches(Phase::kFinished, 2));
  for (const auto& one : agents) EXPECT_EQ(one->wait(), 0);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_NE(
        output(static_cast<std::size_t>(rank) / 2).find(fmt::format("[{0}] rank {0} of 4 gathered 40 steps\n", rank)),
        std::string::npos);
  }
}

TEST_F(AgentJobTest, a_command_of_ours_that_is_not_there_breaks_the_first_generation) {
  plan.kind = rv::Kind::kLockstep;
  start_job(2, 1, {"/no/such/program"});
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  EXPECT_EQ(coordinator->view("uid")->failure->cause, api::Cause::kCommandNotFound);
  EXPECT_EQ(coordinator->view("uid")->failure->exit_code, 127);
}

TEST_F(AgentJobTest, a_worker_that_fails_while_warm_breaks_the_first_generation) {
  plan.kind = rv::Kind::kLockstep;
  start_job(2, 2, shell_worker("[ $RANK = 2 ] && { echo no data >&2; exit 65; }; exec sleep 100"));
  ASSERT_TRUE(reaches(Phase::kBroken, 1));
  const rv::Failure failure = *coordinator->view("uid")->failure;
  EXPECT_EQ(failure.cause, api::Cause::kProcessExit);
  EXPECT_EQ(failure.rank, 2);
  EXPECT_EQ(failure.slot, 1);
  EXPECT_EQ(failure.exit_code, 65);
  EXPECT_NE(failure.message.find("no data"), std::string::npos) << failure.message;
  handled(1);
  ASSERT_TRUE(reaches(Phase::kBroken, 2));
}

TEST_F(AgentJobTest, programs_that_know_nothing_of_a_generation_and_end_well_run_once) {
  plan.kind = rv::Kind::kLockstep;
  start_job(2, 2, shell_worker("sleep 0.$RANK"));
  ASSERT_TRUE(reaches(Phase::kFinished, 1));
  for (const auto& one : agents) EXPECT_EQ(one->wait(), 0);
  EXPECT_EQ(started(0).size(), 4U);
  EXPECT_TRUE(started(1).empty());
}

TEST_F(AgentJobTest, an_agent_ends_with_the_process_that_started_it_where_asked) {
  plan.slots = 1;
  plan.members = {expected(0)};
  coordinator->set_job(plan);
  auto variables = environment(0);
  variables[rv::kEnvParentDeath] = "1";
  const std::string script = fmt::format(
      "{} run -- sh -c 'echo $RANK $LOCKSTEP_GENERATION $$ >> $OUT; exec sleep 100' & "
      "echo $! > {}; wait",
      LOCKSTEP_AGENT, folder / "agent-pid");
  Child parent({"/bin/sh", "-c", script}, variables, folder / "agent-0");
  ASSERT_TRUE(eventually([&](const auto&) { return started(1).size() == 1; }));
  const pid_t agent_pid = std::stoi(contents(folder / "agent-pid"));
  parent.signal(SIGKILL);
  EXPECT_TRUE(eventually([&](const auto&) { return !is_alive(started(1)[0].pid); }));
  // Another process may adopt and reap the orphan, at its own pace: dead is enough.
  EXPECT_TRUE(eventually([&](const auto&) {
    const std::string stat = contents(fmt::format("/proc/{}/stat", agent_pid));
    return stat.empty() || stat.find(") Z ") != std::string::npos;
  }));
}

}  // namespace
}  // namespace lockstep::trainer::agent
