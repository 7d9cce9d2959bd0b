// The whole job controller: what its watches of nodes and pods say of sick ones decides whether members leave.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/job/children.h"
#include "tests/operator/job/running_controller.h"

namespace lockstep::job::sick_nodes_test {
namespace {

using kube::Json;
using std::chrono::seconds;
using testing::holds_within;
using testing::RunningController;

constexpr const char* kSign = "example.com/sick";

// Once `up`, the member of slot 0 trains, and that of slot 1 is its spare.
class SteadyCoordinator final : public rendezvous::Coordinator {
 public:
  explicit SteadyCoordinator(const std::atomic<bool>& up) : up_(up) {}
  void set_job(const rendezvous::JobPlan&) override {}
  void forget_job(const std::string&) override {}
  std::optional<rendezvous::JobView> view(const std::string&) const override {
    if (!up_) return std::nullopt;
    rendezvous::JobView view;
    view.generation = 1;
    view.phase = rendezvous::Phase::kUp;
    view.world_size = 1;
    view.places = {{.slot = 0, .incarnation = 1}};
    view.members = {
        {.slot = 0, .incarnation = 1, .connected = true, .in_gang = true, .up = true, .alive = true},
        {.slot = 1, .incarnation = 1, .connected = true},
    };
    return view;
  }
  std::string address() const override { return "127.0.0.1:7077"; }
  Status use_certificate(const rendezvous::KeyPair&) override { return {}; }

 private:
  const std::atomic<bool>& up_;
};

class SickNodes : public ::testing::Test {
 protected:
  // Of ten nodes, the pod of slot 0 runs on n0 and that of slot 1 on n1.
  void SetUp() override {
    for (int i = 0; i < 10; ++i) {
      const Json node{{"apiVersion", "v1"},
                      {"kind", "Node"},
                      {"metadata", {{"name", "n" + std::to_string(i)}}},
                      {"status", {{"conditions", Json::array({{{"type", "Ready"}, {"status", "True"}}})}}}};
      ASSERT_TRUE(running.api.create(kube::kNodes, "", node));
    }
    running.create_job("a", 1, [](api::TrainingJobSpec& spec) {
      spec.spares = 1;
      spec.checkpoint.path = "/checkpoint";  // the spare has no state
    });
    ASSERT_TRUE(holds_within(seconds(10), [&] { return running.pods("a") == 2; }));
    for (int slot = 0; slot < 2; ++slot) {
      members[slot] = pod_name(running.job("a"), slot, 1);
      patch(kube::kPods, members[slot], {{"spec", {{"nodeName", "n" + std::to_string(slot)}}}});
      const Json ready = Json::array({{{"type", "Ready"}, {"status", "True"}}});
      patch(kube::kPods, members[slot], {{"status", {{"phase", "Running"}, {"conditions", ready}}}}, "status");
    }
    up = true;
    view_changed("default", "a");
    ASSERT_TRUE(comes([&] { return running.job("a").status.state == "Running"; }));
  }
  void TearDown() override { running.controller->stop(); }

  // Returns when the controller has handled the change.
  void patch(const kube::Resource& resource, const std::string& name, const Json& change,
             const std::string& subresource = "") {
    const std::string name_space = resource.namespaced ? "default" : "";
    const auto written = running.api.patch(resource, name_space, name, kube::PatchType::kMerge, change, subresource);
    ASSERT_TRUE(written) << written.error().message;
    const std::string version = (*written)["metadata"]["resourceVersion"];
    ASSERT_TRUE(holds_within(seconds(10), [&] {
      const auto handled = running.watched.handled(resource, name);
      return !handled.empty() && std::stoull(handled) >= std::stoull(version);
    }));
  }
  void sicken_node(const std::string& name) {
    patch(kube::kNodes, name, {{"metadata", {{"labels", {{kSign, "yes"}}}}}});
  }
  void sicken_device(const std::string& pod) {
    const Json device{{"resourceID", "GPU-0"}, {"health", "Unhealthy"}};
    const Json resource{{"name", "nvidia.com/gpu"}, {"resources", Json::array({device})}};
    const Json container{{"name", "trainer"}, {"allocatedResourcesStatus", Json::array({resource})}};
    patch(kube::kPods, pod, {{"status", {{"containerStatuses", Json::array({container})}}}}, "status");
  }
  // Time passes until the condition holds.
  bool comes(const std::function<bool()>& condition) {
    return holds_within(seconds(20), [&] {
      clock.advance(std::chrono::milliseconds(500));
      return condition();
    });
  }
  // What the attempt says with which a member left; "" while none has.
  std::string departure() {
    const auto attempts = running.job("a").status.attempts;
    return attempts.empty() ? "" : attempts.front().message;
  }
  std::string told(const std::string& reason) {
    const auto page = running.api.list(kube::kEvents, {.name_space = "default"});
    for (const Json& event : page->items) {
      if (event.value("reason", "") == reason) return event.value("note", "");
    }
    return "";
  }

  JobControllerOptions options() {
    JobControllerOptions options;
    options.leave_signs = *placement::SickSigns::of_flags({std::string("label:") + kSign});
    options.make_coordinator = [this](const auto&, auto&, auto&, auto&, const auto& on_view_change) {
      view_changed = on_view_change;
      return Result<std::unique_ptr<rendezvous::Coordinator>>(std::make_unique<SteadyCoordinator>(up));
    };
    return options;
  }

  ManualClock clock;
  std::atomic<bool> up = false;
  rendezvous::OnViewChange view_changed;
  RunningController running{[](const auto&) { return std::nullopt; }, options(), clock};
  std::string members[2];
};

TEST_F(SickNodes, a_node_that_gets_a_sign_is_left) {
  sicken_node("n0");
  ASSERT_TRUE(comes([&] { return !departure().empty(); }));
  EXPECT_EQ(departure(), "pod " + members[0] + " leaves node n0: the node has label:" + kSign);
}

TEST_F(SickNodes, a_pod_whose_device_becomes_unhealthy_leaves) {
  sicken_device(members[0]);
  ASSERT_TRUE(comes([&] { return !departure().empty(); }));
  EXPECT_EQ(departure(), "pod " + members[0] + " leaves node n0: nvidia.com/gpu GPU-0 is Unhealthy");
}

TEST_F(SickNodes, four_of_ten_nodes_at_once_are_told_and_none_is_left) {
  for (const char* node : {"n9", "n8", "n7", "n0"}) sicken_node(node);
  ASSERT_TRUE(comes([&] { return !told("ManyNodesSick").empty(); }));
  EXPECT_EQ(told("ManyNodesSick"), "pod " + members[0] + " stays on node n0: the node has label:" + kSign +
                                       ", but more than 20 % of all nodes became sick together");
  EXPECT_EQ(departure(), "");
  EXPECT_EQ(running.pods("a"), 2U);
}

}  // namespace
}  // namespace lockstep::job::sick_nodes_test
