#include "operator/cli/chaos_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::cli::chaos_report_test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

ChaosEvent event(int number, FaultKind kind, int ms, bool made = true) {
  return {.number = number,
          .fault = {.kind = kind, .slot = 2},
          .step = 10 * number,
          .when = MonotonicTime(std::chrono::milliseconds(ms)),
          .made = made,
          .what = made ? "killed it" : "it was not there"};
}

ChaosReport report() {
  ChaosReport made{.wish = {7, 5},
                   .events = {event(1, FaultKind::kKillWorker, 1000), event(2, FaultKind::kKillPod, 2000),
                              event(3, FaultKind::kCutData, 2200), event(4, FaultKind::kKillWorker, 3000, false)},
                   .left = 1,
                   .succeeded = true,
                   .restarts = 3,
                   .charged = 2,
                   .max_restarts = 14};
  made.ledger.wall_ns = 10'000'000'000;
  // The last millisecond of each stretch; the second holds faults 2 and 3.
  made.ledger.lost = {{500'000'000, 20'000'000}, {1'300'000'000, 300'000'000}, {2'500'000'000, 480'000'000}};
  made.ledger.effective = {{1, 1}, {2, 1}};
  return made;
}

TEST(ChaosReport, counts_faults_by_kind_with_the_time_that_each_cost) {
  EXPECT_EQ(
      chaos_text(report()),
      "chaos with seed 7: 3 of 5 faults were made; the job ended before the last 1\n"
      "FAULT            MADE  LEFT OUT  LOST, MEDIAN  LOST, WORST\n"
      "kill a worker    1     1         300 ms        300 ms\n"
      "kill a pod       1     0         480 ms        480 ms\n"
      "cut a data link  1     0         0 ms          0 ms\n"
      "restarts: 3, of which 2 charged to restart.maxRestarts (14 in this run)\n"
      "goodput: 92.0 % of 10.0 s went into the 2 steps that count; 0 done again\n"
      "verdict: the job finished; each step was committed once, whole, with bitwise identical weights on all ranks\n");
  EXPECT_TRUE(report().good());
}

TEST(ChaosReport, is_bad_when_the_ledger_is_not_in_order_or_the_job_did_not_finish) {
  ChaosReport bad = report();
  bad.ledger.violations = {"step 3 was committed by no rank"};
  EXPECT_FALSE(bad.good());
  EXPECT_NE(chaos_text(bad).find("ledger: step 3 was committed by no rank\n"), std::string::npos);
  EXPECT_NE(chaos_text(bad).find("verdict: the job finished; 1 violation\n"), std::string::npos);
  bad = report();
  bad.succeeded = false;
  EXPECT_FALSE(bad.good());
  EXPECT_NE(chaos_text(bad).find("verdict: the job did not finish;"), std::string::npos);
}

TEST(ChaosReport, is_there_for_tools) {
  const json said = chaos_json(report());
  EXPECT_EQ(said["seed"], 7);
  EXPECT_EQ(said["made"], 3);
  EXPECT_EQ(said["events"][1], (json{{"number", 2},
                                     {"kind", "kill a pod"},
                                     {"slot", 2},
                                     {"step", 20},
                                     {"ns", 2'000'000'000},
                                     {"made", true},
                                     {"what", "killed it"},
                                     {"lostMs", 480.0}}));
  EXPECT_EQ(said["good"], true);
}

TEST(ChaosReport, a_fault_is_reported_when_it_strikes) {
  EXPECT_EQ(describe(event(3, FaultKind::kKillPod, 0), 60), "chaos 3 of 60, after step 30: killed it");
  EXPECT_EQ(describe(event(3, FaultKind::kKillPod, 0, false), 60),
            "chaos 3 of 60, after step 30: could not kill a pod: it was not there");
}

TEST(ChaosReport, the_budget_grows_by_the_faults_that_may_be_charged_to_it) {
  const std::vector<Fault> schedule = {{.kind = FaultKind::kKillWorker}, {.kind = FaultKind::kKillPod},
                                       {.kind = FaultKind::kEndPod},     {.kind = FaultKind::kFreezeWorker},
                                       {.kind = FaultKind::kCutData},    {.kind = FaultKind::kRestartCoordinator}};
  json job = {{"spec", json::object()}};
  EXPECT_EQ(raise_budget(job, schedule), 13);
  EXPECT_EQ(job["spec"]["restart"]["maxRestarts"], 13);
  job["spec"]["restart"]["maxRestarts"] = 0;
  EXPECT_EQ(raise_budget(job, schedule), 3);
  job["spec"]["restart"]["maxRestarts"] = 9999;
  EXPECT_EQ(raise_budget(job, schedule), 10000);
}

}  // namespace
}  // namespace lockstep::cli::chaos_report_test
