// The whole job controller over an API server in memory: what leadership that comes late or goes means for its writes.
#include "operator/job/job_controller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <thread>

#include "operator/local/memory_api.h"
#include "tests/operator/job/hooked_api.h"

namespace lockstep::job::job_controller_test {
namespace {

using kube::Json;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A coordinator that no agent ever reaches.
class QuietCoordinator final : public rendezvous::Coordinator {
 public:
  void set_job(const rendezvous::JobPlan&) override {}
  void forget_job(const std::string&) override {}
  std::optional<rendezvous::JobView> view(const std::string&) const override { return std::nullopt; }
  std::string address() const override { return "127.0.0.1:7077"; }
  Status use_certificate(const rendezvous::KeyPair&) override { return {}; }
};

// The server, which answers creates of Events only while the gate is open.
class GatedEvents final : public testing::HookedApi {
 public:
  using HookedApi::HookedApi;

  std::atomic<bool> open = true;
  std::atomic<int> waiting = 0;  // creates that stand before the gate

 private:
  std::optional<Error> before(const Write& write) override {
    if (write.object == nullptr || write.resource != kube::kEvents) return std::nullopt;
    ++waiting;
    open.wait(false);
    --waiting;
    return std::nullopt;
  }
};

class JobControllerTest : public ::testing::Test {
 protected:
  void start() {
    JobControllerOptions options;
    options.agent_image = "operator:dev";
    options.may_write = [this] { return leads.load(); };
    options.make_coordinator = [](const auto&, auto&, auto&, Clock&, auto) {
      return Result<std::unique_ptr<rendezvous::Coordinator>>(std::make_unique<QuietCoordinator>());
    };
    auto started = start_job_controller(options, api, metrics, SystemClock::instance());
    ASSERT_TRUE(started) << started.error().message;
    controller = std::move(*started);
  }
  void create_job(const std::string& name, bool suspend = false) {
    const Json job{
        {"apiVersion", "lockstep.dev/v1alpha1"},
        {"kind", "TrainingJob"},
        {"metadata", {{"name", name}, {"namespace", "default"}}},
        {"spec", {{"image", "trainer:dev"}, {"command", Json::array({"train"})}, {"nodes", 2}, {"suspend", suspend}}}};
    ASSERT_TRUE(memory.create(kube::kTrainingJobs, "default", job));
  }
  std::size_t count(const kube::Resource& resource) {
    const auto page = memory.list(resource, {.name_space = "default"});
    return page ? page->items.size() : 0;
  }
  // Two jobs with an event each; the first stands before the gate, the second waits for its turn.
  void record_two_events() {
    api.open = false;
    start();
    create_job("a", true);
    create_job("b", true);
    const auto suspended = [&](const char* name) {
      const auto job = memory.get(kube::kTrainingJobs, "default", name);
      return job && job->value(Json::json_pointer("/status/state"), "") == "Suspended";
    };
    ASSERT_TRUE(wait_for([&] { return suspended("a") && suspended("b") && api.waiting == 1; }));
    std::this_thread::sleep_for(milliseconds(50));  // an event follows its status
  }
  template <typename Condition>
  static bool wait_for(Condition condition, Duration deadline = seconds(10)) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(2));
    return condition();
  }
  bool refused_by_the_fence() const {
    return metrics.text().find("lockstep_operator_reconcile_total{result=\"cancelled\"}") != std::string::npos;
  }

  local::MemoryApi memory;
  GatedEvents api{memory};
  MetricsRegistry metrics;
  std::atomic<bool> leads = true;
  std::unique_ptr<JobController> controller;
};

TEST_F(JobControllerTest, a_job_made_while_a_renewal_is_late_is_reconciled_soon_after_it) {
  start();
  ASSERT_TRUE(wait_for([&] { return controller->synced(); }));
  leads = false;
  create_job("late");
  ASSERT_TRUE(wait_for([&] { return refused_by_the_fence(); }));
  EXPECT_EQ(count(kube::kPods), 0U);
  leads = true;
  EXPECT_TRUE(wait_for([&] { return count(kube::kPods) == 2; }, seconds(3)));
  controller->stop();
}

TEST_F(JobControllerTest, events_that_a_late_renewal_held_up_arrive_after_it) {
  record_two_events();
  leads = false;
  api.open = true;
  api.open.notify_all();
  std::this_thread::sleep_for(milliseconds(50));  // the recorder goes on to the next, which the fence refuses
  EXPECT_EQ(count(kube::kEvents), 1U);
  leads = true;
  EXPECT_TRUE(wait_for([&] { return count(kube::kEvents) == 2; }, seconds(3)));
  controller->stop();
  EXPECT_EQ(metrics.text().find("lockstep_events_dropped_total"), std::string::npos);
}

TEST_F(JobControllerTest, the_last_events_go_out_before_the_lease_is_given_back) {
  record_two_events();
  auto stopped = std::async(std::launch::async, [&] {
    controller->stop();
    leads = false;  // as a Lease that is released
  });
  std::this_thread::sleep_for(milliseconds(100));
  api.open = true;
  api.open.notify_all();
  stopped.get();
  controller.reset();
  EXPECT_EQ(count(kube::kEvents), 2U);
  EXPECT_EQ(metrics.text().find("lockstep_events_dropped_total"), std::string::npos);
}

TEST_F(JobControllerTest, pods_made_after_a_change_of_access_dial_and_trust_what_it_says) {
  start();
  ASSERT_TRUE(wait_for([&] { return controller->synced(); }));
  const auto old = rendezvous::make_authority(), next = rendezvous::make_authority();
  ASSERT_TRUE(old && next);
  ASSERT_TRUE(controller->change_access("10.96.0.99:7077", old->certificate_pem + next->certificate_pem, *old));
  EXPECT_EQ(controller->advertise_address(), "10.96.0.99:7077");
  create_job("a");
  ASSERT_TRUE(wait_for([&] { return count(kube::kPods) == 2; }));
  controller->stop();
  const Json pod = memory.list(kube::kPods, {.name_space = "default"})->items.at(0);
  for (const auto* authority : {&*old, &*next}) {
    EXPECT_TRUE(pod["metadata"]["labels"].contains("lockstep.dev/trusts-" +
                                                   rendezvous::fingerprints(authority->certificate_pem).at(0)));
  }
  std::map<std::string, std::string> environment;
  for (const Json& variable : pod["spec"]["containers"][0]["env"]) {
    environment[variable["name"]] = variable.value("value", "");
  }
  EXPECT_EQ(environment["LOCKSTEP_COORDINATOR"], "10.96.0.99:7077");
  EXPECT_EQ(environment["LOCKSTEP_COORDINATOR_CA"], old->certificate_pem + next->certificate_pem);
}

}  // namespace
}  // namespace lockstep::job::job_controller_test
