// Each transition of job_states.h, taken by decide().
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "tests/operator/job/job_states.h"
#include "tests/operator/job/situation.h"

namespace lockstep::job::decide_states_test {
namespace {

using rendezvous::Phase;
using Act = std::function<void(Situation&)>;

// Brings a new job of two pods into a state.
const std::map<std::string, Act> kInto = {
    {"", [](Situation&) {}},
    {"Pending",
     [](Situation& s) {
       s.see(Phase::kWaiting, 0);
       s.accept();
     }},
    {"Starting",
     [](Situation& s) {
       kInto.at("Pending")(s);
       s.pod(0);
       s.pod(1);
       s.accept();
     }},
    {"Running", [](Situation& s) { s.running(); }},
    {"Restarting",
     [](Situation& s) {
       s.running();
       s.broken(1, api::Cause::kProcessSignal, 1, 137);
       s.accept();
     }},
    {"Suspended",
     [](Situation& s) {
       s.see(Phase::kWaiting, 0);
       s.job.spec.suspend = true;
       s.accept();
     }},
};

void suspend(Situation& s) {
  s.job.spec.suspend = true;
}

void refuse_pod(Situation& s) {
  s.problem = CreateProblem{.kind = "Pod", .name = "a-abcd-0-1", .code = ErrorCode::kInvalid, .job_generation = 1};
}

void place_both(Situation& s) {
  s.pod(0);
  s.pod(1);
}

// What happens to the job: one act for each transition.
const std::map<std::pair<std::string, std::string>, Act> kActs = {
    {{"", "Pending"}, [](Situation&) {}},
    {{"", "Suspended"}, suspend},

    {{"Pending", "Starting"}, place_both},
    {{"Pending", "Running"},
     [](Situation& s) {
       place_both(s);
       s.see(Phase::kUp, 1);
     }},
    {{"Pending", "Restarting"}, [](Situation& s) { s.pod(0, 1, "Failed"); }},
    {{"Starting", "Pending"}, [](Situation& s) { s.job.spec.nodes = 3; }},
    {{"Starting", "Running"}, [](Situation& s) { s.see(Phase::kUp, 1); }},
    {{"Starting", "Restarting"}, [](Situation& s) { s.broken(1, api::Cause::kProcessSignal, 1, 137); }},
    {{"Running", "Restarting"}, [](Situation& s) { s.broken(1, api::Cause::kProcessSignal, 1, 137); }},
    {{"Restarting", "Running"}, [](Situation& s) { s.see(Phase::kUp, 2); }},

    {{"Pending", "Suspended"}, suspend},
    {{"Pending", "Succeeded"}, [](Situation& s) { s.see(Phase::kFinished, 1); }},
    {{"Pending", "Failed"}, refuse_pod},
    {{"Starting", "Suspended"}, suspend},
    {{"Starting", "Succeeded"}, [](Situation& s) { s.see(Phase::kFinished, 1); }},
    {{"Starting", "Failed"},
     [](Situation& s) { s.now += std::chrono::seconds(s.job.spec.deadlines.startup_seconds + 1); }},
    {{"Running", "Suspended"}, suspend},
    {{"Running", "Succeeded"}, [](Situation& s) { s.see(Phase::kFinished, 1); }},
    {{"Running", "Failed"}, [](Situation& s) { s.broken(1, api::Cause::kProcessExit, 0, 65); }},
    {{"Restarting", "Suspended"}, suspend},
    {{"Restarting", "Succeeded"}, [](Situation& s) { s.see(Phase::kFinished, 2); }},
    {{"Restarting", "Failed"}, [](Situation& s) { s.broken(2, api::Cause::kProcessExit, 0, 65); }},

    {{"Suspended", "Pending"}, [](Situation& s) { s.job.spec.suspend = false; }},
};

TEST(JobStates, a_job_takes_each_transition_of_the_table) {
  EXPECT_EQ(kActs.size(), std::size(kTransitions));
  for (const auto& [from, to] : kTransitions) {
    SCOPED_TRACE(fmt::format("from '{}' to '{}'", from, to));
    const auto act = kActs.find({std::string(from), std::string(to)});
    ASSERT_NE(act, kActs.end());
    Situation s;
    kInto.at(std::string(from))(s);
    ASSERT_EQ(s.job.status.state, from);
    act->second(s);
    s.accept();
    EXPECT_EQ(s.job.status.state, to);
  }
}

TEST(JobStates, a_job_that_ended_stays_as_it_is) {
  for (const char* end : {"Succeeded", "Failed"}) {
    for (const auto& [from, to] : kTransitions) EXPECT_NE(from, end) << to;
  }
  EXPECT_FALSE(may_follow("Running", "Pending"));
  EXPECT_TRUE(may_follow("Running", "Running"));
}

}  // namespace
}  // namespace lockstep::job::decide_states_test
