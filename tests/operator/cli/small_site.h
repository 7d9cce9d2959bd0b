// Nodes, pods and jobs in the in-memory API, and what a command prints, for tests of the commands of placement.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "operator/api/object.h"
#include "operator/cli/cluster_commands.h"
#include "operator/local/memory_api.h"

namespace lockstep::cli {

class SmallSite : public testing::Test {
 protected:
  using json = nlohmann::json;

  void SetUp() override { out_ = open_memstream(&text_, &size_); }
  void TearDown() override {
    fclose(out_);
    free(text_);
  }
  Target target() { return {api_, "default", clock_, out_}; }
  // What was printed since the last call.
  std::string printed() {
    fflush(out_);
    std::string all(text_, size_);
    std::string news = all.substr(read_);
    read_ = all.size();
    return news;
  }

  void make_node(const std::string& name, const json& labels, int gpus = 8, const json& spec = json::object()) {
    json allocatable = {{"cpu", "16"}, {"memory", "64Gi"}, {"pods", "110"}};
    if (gpus > 0) allocatable["nvidia.com/gpu"] = std::to_string(gpus);
    ASSERT_TRUE(
        api_.create(kube::kNodes, "", {{"metadata", {{"name", name}, {"labels", labels}}}, {"spec", spec}}).ok());
    const json ready = {{"type", "Ready"}, {"status", "True"}};
    const json status = {{"allocatable", allocatable}, {"conditions", json::array({ready})}};
    ASSERT_TRUE(api_.patch(kube::kNodes, "", name, kube::PatchType::kMerge, {{"status", status}}, "status").ok());
  }
  // Of each block b1, b2, ... so many racks b1r1, ..., of so many nodes b1r1n1, ...
  void make_nodes(int blocks, int racks, int nodes, int gpus = 8) {
    for (int b = 1; b <= blocks; ++b) {
      for (int r = 1; r <= racks; ++r) {
        for (int n = 1; n <= nodes; ++n) {
          const std::string block = "b" + std::to_string(b), rack = block + "r" + std::to_string(r);
          make_node(rack + "n" + std::to_string(n), {{"x/block", block}, {"x/rack", rack}}, gpus);
        }
      }
    }
  }
  json make_job(const std::string& name, const json& spec = json::object(), const std::string& name_space = "default") {
    json whole = {{"image", "x"}, {"command", {"train"}}, {"nodes", 2}};
    if (spec.is_object()) whole.update(spec);
    const auto made = api_.create(kube::kTrainingJobs, name_space, {{"metadata", {{"name", name}}}, {"spec", whole}});
    EXPECT_TRUE(made.ok());
    return made.ok() ? *made : json();
  }
  // A pod with so many GPUs; of a job where `job` is one.
  void make_pod(const std::string& name, const std::string& node, int gpus, const json& job = json(), int priority = 0,
                const std::string& started = "") {
    const json requests = {{"nvidia.com/gpu", std::to_string(gpus)}};
    const json container = {{"name", "c"}, {"resources", {{"requests", requests}}}};
    json pod = {{"metadata", {{"name", name}, {"labels", json::object()}}},
                {"spec", {{"nodeName", node}, {"priority", priority}, {"containers", json::array({container})}}},
                {"status", {{"phase", "Running"}}}};
    std::string name_space = "default";
    if (!job.is_null()) {
      name_space = job["metadata"]["namespace"];
      pod["metadata"]["labels"] = {{api::kLabelJobUid, job["metadata"]["uid"]}, {api::kLabelSlot, "0"}};
    }
    const auto made = api_.create(kube::kPods, name_space, pod);
    ASSERT_TRUE(made.ok()) << made.error().message;
    if (started.empty()) return;
    const json status = {{"startTime", started}};
    ASSERT_TRUE(
        api_.patch(kube::kPods, name_space, name, kube::PatchType::kMerge, {{"status", status}}, "status").ok());
  }

  // A pod of the operator, as the chart makes it.
  void make_operator(const std::vector<std::string>& args) {
    const json labels = {{"app.kubernetes.io/name", "lockstep"}, {"app.kubernetes.io/component", "operator"}};
    const json container = {{"name", "operator"}, {"args", args}};
    const json pod = {{"metadata", {{"name", "operator-0"}, {"labels", labels}}},
                      {"spec", {{"containers", json::array({container})}}}};
    ASSERT_TRUE(api_.create(kube::kPods, "lockstep", pod).ok());
  }

  ManualClock clock_;
  local::MemoryApi api_{clock_};
  char* text_ = nullptr;
  size_t size_ = 0, read_ = 0;
  std::FILE* out_ = nullptr;
};

inline const std::vector<std::string> kLevelFlags = {"block=x/block", "rack=x/rack"};

}  // namespace lockstep::cli
