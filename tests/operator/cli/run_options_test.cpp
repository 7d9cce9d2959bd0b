#include "operator/cli/run_options.h"

#include <gtest/gtest.h>

namespace lockstep::cli::run_options_test {
namespace {

using nlohmann::json;

json job() {
  return {{"metadata", {{"name", "j"}}}, {"spec", {{"command", {"lockstep-trainer", "--data=/a"}}, {"nodes", 4}}}};
}

TEST(RunOptions, a_kill_is_a_rank_and_a_step) {
  EXPECT_EQ(*parse_worker_kill("2@100"), (WorkerKill{2, 100}));
  for (const char* bad : {"", "2", "2@", "@3", "a@3", "2@b", "-1@3", "2@-3", "2@3x"}) {
    EXPECT_EQ(parse_worker_kill(bad).error().message,
              std::string("--kill-worker \"") + bad + "\": give a rank and a step, as in --kill-worker 2@100");
  }
}

TEST(RunOptions, settings_reach_any_field) {
  json changed = job();
  ASSERT_TRUE(apply_setting(changed, "spec.restart.maxRestarts=3").ok());
  ASSERT_TRUE(apply_setting(changed, "spec.command.0=other").ok());
  ASSERT_TRUE(apply_setting(changed, "spec.deterministic=a=b").ok());
  ASSERT_TRUE(apply_setting(changed, "metadata.name=k").ok());
  EXPECT_EQ(changed["spec"]["restart"]["maxRestarts"], 3);
  EXPECT_EQ(changed["spec"]["command"][0], "other");
  EXPECT_EQ(changed["spec"]["deterministic"], "a=b");
  EXPECT_EQ(changed["metadata"]["name"], "k");
}

TEST(RunOptions, impossible_settings_are_refused_by_name) {
  for (const auto& [setting, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"nodes=3", "--set \"nodes=3\": give a field and a value, as in --set spec.restart.maxRestarts=3"},
           {"spec.nodes", "--set \"spec.nodes\": give a field and a value, as in --set spec.restart.maxRestarts=3"},
           {"spec.nodes.x=3", "--set \"spec.nodes.x=3\": the field before \"x\" has no fields"},
           {"spec.command.7=x", "--set \"spec.command.7=x\": the list has no element 7"}}) {
    json changed = job();
    const Status status = apply_setting(changed, setting);
    ASSERT_FALSE(status.ok()) << setting;
    EXPECT_EQ(status.error().message, sentence);
  }
}

TEST(RunOptions, data_replaces_the_flag_where_it_stands) {
  RunOptions options;
  options.data = "/b/../c";
  json changed = job();
  ASSERT_TRUE(apply_run_options(changed, options).ok());
  EXPECT_EQ(changed["spec"]["command"], json({"lockstep-trainer", "--data=/c"}));
  changed = job();
  changed["spec"]["command"] = {"x"};
  changed["spec"]["args"] = {"--data", "/a"};
  ASSERT_TRUE(apply_run_options(changed, options).ok());
  EXPECT_EQ(changed["spec"]["args"], json({"--data", "/c"}));
}

TEST(RunOptions, workers_flags_and_the_programs_own_arguments_are_added) {
  RunOptions options;
  options.workers = 2;
  options.deterministic = true;
  options.program_args = {"--steps=5", "--data=/b", "-v"};
  json changed = job();
  ASSERT_TRUE(apply_run_options(changed, options).ok());
  EXPECT_EQ(changed["spec"]["nodes"], 2);
  EXPECT_EQ(changed["spec"]["args"], json({"--deterministic", "--steps=5", "-v"}));
  EXPECT_EQ(changed["spec"]["command"], json({"lockstep-trainer", "--data=/b"}));
  ASSERT_TRUE(apply_run_options(changed, {.deterministic = true}).ok());
  EXPECT_EQ(changed["spec"]["args"], json({"--deterministic", "--steps=5", "-v"}));
}

TEST(RunOptions, fields_that_a_machine_does_not_apply_are_named_and_removed) {
  json changed = job();
  changed["spec"]["gpusPerNode"] = 2;
  changed["spec"]["resources"] = {{"limits", {{"cpu", "1"}}}};
  changed["spec"]["podTemplate"] = json::object();
  changed["spec"]["placement"] = {{"required", "rack"}};
  changed["spec"]["scheduling"] = {{"priorityClassName", "high"}};
  changed["spec"]["checkpoint"] = {{"path", "/ckpt"}, {"claimName", "c"}, {"everySeconds", 5}};
  const auto dropped = fit_to_machine(changed, "/out");
  ASSERT_TRUE(dropped.ok());
  EXPECT_EQ(*dropped,
            (std::vector<std::string>{"spec.resources", "spec.gpusPerNode", "spec.placement", "spec.scheduling"}));
  EXPECT_EQ(changed["spec"]["procsPerNode"], 2);
  for (const char* field : {"gpusPerNode", "placement", "scheduling"}) EXPECT_FALSE(changed["spec"].contains(field));
  EXPECT_EQ(changed["spec"]["checkpoint"], (json{{"path", "/out/checkpoints"}, {"everySeconds", 5}}));
  EXPECT_EQ(changed["spec"]["args"], json({"--metrics-file=/out/metrics.jsonl"}));
}

TEST(RunOptions, a_job_with_gpus_is_told_what_this_machine_does_instead) {
  json changed = job();
  EXPECT_EQ(gpu_note(changed, false), "");
  changed["spec"]["gpusPerNode"] = 2;
  EXPECT_EQ(gpu_note(changed, true),
            "spec.gpusPerNode is 2: lockstep run assigns no GPUs, so each process sees all of this machine's");
  EXPECT_EQ(
      gpu_note(changed, false),
      "spec.gpusPerNode is 2, and this machine has no GPU: the processes run without one; lockstep-trainer computes "
      "on the CPU");
  const json command = changed["spec"]["command"];
  for (const char* flag : {"--backend=cuda", "--precision=bf16", "--precision=tf32"}) {
    changed["spec"]["command"] = command;
    changed["spec"]["command"].push_back(flag);
    EXPECT_EQ(gpu_note(changed, false),
              "spec.gpusPerNode is 2, and this machine has no GPU: its flags ask lockstep-trainer for one, so it ends; "
              "to compute on the CPU instead, append -- --backend=cpu --precision=fp32 --transport=auto")
        << flag;
  }
  changed["spec"]["command"] = {"python3", "train.py"};
  EXPECT_EQ(gpu_note(changed, false),
            "spec.gpusPerNode is 2, and this machine has no GPU: the processes run without one");
}

TEST(RunOptions, chaos_is_judged_by_the_ledger_of_our_trainer_or_the_programs_own) {
  json changed = job();
  EXPECT_EQ(*ledger_of(changed, "/out"), "/out/ledger");
  EXPECT_EQ(changed["spec"]["args"], json({"--ledger=/out/ledger"}));
  changed["spec"]["command"] = {"other", "--ledger", "/a"};
  changed["spec"]["args"] = json::array();
  EXPECT_EQ(*ledger_of(changed, "/out"), "/a");
  EXPECT_EQ(changed["spec"]["args"], json::array());
  changed["spec"]["command"] = {"other"};
  EXPECT_EQ(ledger_of(changed, "/out").error().message,
            "--chaos needs a program that keeps a ledger: lockstep-trainer, or one with a --ledger=DIR of its own");
}

TEST(RunOptions, a_suspended_job_is_refused) {
  json changed = job();
  changed["spec"]["suspend"] = true;
  EXPECT_EQ(fit_to_machine(changed, "/out").error().message,
            "spec.suspend is true, so the job would never start: remove it or add --set spec.suspend=false");
}

}  // namespace
}  // namespace lockstep::cli::run_options_test
