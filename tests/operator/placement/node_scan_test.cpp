#include "operator/placement/node_scan.h"

#include <gtest/gtest.h>

namespace lockstep::placement {
namespace {

NodeRecord scanned_node(const std::string& text, const LabelKeys& labels = {}) {
  auto node = scan_node(text, labels);
  EXPECT_TRUE(node) << node.error().message;
  return node.value_or({});
}

TEST(NodeScan, keeps_what_decides_how_many_pods_fit) {
  const auto node = scanned_node(
      R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"gpu-7","labels":{"rack":"r7","zone":"z","beta.arch":"x"},
          "managedFields":[{"fieldsV1":{"f:metadata":{"name":"other"}}}]},
          "spec":{"podCIDR":"10.0.0.0/24","unschedulable":true,"taints":[
            {"key":"b","effect":"NoExecute"},{"key":"soft","effect":"PreferNoSchedule"},
            {"key":"a","value":"v","effect":"NoSchedule"}]},
          "status":{"capacity":{"cpu":"99"},"allocatable":{"cpu":"95500m","memory":"1Ki","nvidia.com/gpu":"8",
            "pods":"110","example.com/none":"0"},
            "conditions":[{"type":"MemoryPressure","status":"False"},{"status":"True","type":"Ready"}],
            "images":[{"names":["a"]}]}})",
      {"rack", "absent"});
  EXPECT_EQ(node.name, "gpu-7");
  EXPECT_EQ(node.labels, (api::Labels{{"rack", "r7"}}));
  EXPECT_EQ(node.allocatable,
            (std::vector<Amount>{{"cpu", 95500}, {"memory", 1024}, {"nvidia.com/gpu", 8}, {"pods", 110}}));
  EXPECT_EQ(node.taints, (std::vector<Taint>{{"a", "v", "NoSchedule"}, {"b", "", "NoExecute"}}));
  EXPECT_TRUE(node.ready);
  EXPECT_TRUE(node.unschedulable);
  EXPECT_FALSE(node.out_of_service);
}

TEST(NodeScan, is_ready_by_the_condition_ready_alone) {
  const auto ready = [](const std::string& conditions) {
    return scanned_node(R"({"metadata":{"name":"n"},"status":{"conditions":[)" + conditions + "]}}").ready;
  };
  EXPECT_TRUE(ready(R"({"type":"Ready","status":"True"},{"type":"DiskPressure","status":"False"})"));
  EXPECT_FALSE(ready(R"({"type":"Ready","status":"Unknown"},{"type":"DiskPressure","status":"True"})"));
  EXPECT_FALSE(ready(R"({"type":"DiskPressure","status":"True"})"));
  EXPECT_FALSE(ready(""));
}

TEST(NodeScan, out_of_service_is_a_taint_of_any_effect) {
  const auto node =
      scanned_node(R"({"metadata":{"name":"n"},"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service"}]}})");
  EXPECT_TRUE(node.out_of_service);
  EXPECT_TRUE(node.taints.empty());
}

TEST(NodeScan, a_sign_of_sickness_is_a_condition_a_taint_or_a_label) {
  const auto signs = *SickSigns::of_flags({"condition:XIDErrors=True", "taint:example.com/broken", "label:state=bad"});
  const auto sickness = [&](const std::string& labels, const std::string& taints, const std::string& conditions) {
    const std::string text = R"({"metadata":{"name":"n","labels":{)" + labels + R"(}},"spec":{"taints":[)" + taints +
                             R"(]},"status":{"conditions":[)" + conditions + "]}}";
    return scan_node(text, {}, signs)->sickness;
  };
  const std::string ready = R"({"type":"Ready","status":"True"})";
  EXPECT_EQ(sickness("", "", ready), "");
  EXPECT_EQ(sickness("", "", ready + R"(,{"type":"XIDErrors","status":"True"})"), "condition:XIDErrors=True");
  EXPECT_EQ(sickness("", "", R"({"status":"True","type":"XIDErrors"},)" + ready), "condition:XIDErrors=True");
  EXPECT_EQ(sickness("", "", R"({"type":"XIDErrors","status":"False"},)" + ready), "")
      << "the status of the next condition is not its own";
  EXPECT_EQ(sickness("", R"({"key":"example.com/broken","value":"v","effect":"PreferNoSchedule"})", ready),
            "taint:example.com/broken");
  EXPECT_EQ(sickness(R"("state":"bad")", "", ready), "label:state=bad");
  EXPECT_EQ(sickness(R"("state":"good")", "", ready), "");
  EXPECT_EQ(sickness(R"("state":"bad")", "", R"({"type":"XIDErrors","status":"True"})"), "condition:XIDErrors=True")
      << "the first that was asked for";
}

TEST(NodeScan, an_amount_that_cannot_be_read_is_none) {
  const auto node =
      scanned_node(R"({"metadata":{"name":"n"},"status":{"allocatable":{"cpu":"many","memory":"-1","pods":9,
                                "nvidia.com/gpu":"1e99"}}})");
  EXPECT_EQ(node.allocatable, (std::vector<Amount>{{"nvidia.com/gpu", kMostUnits}, {"pods", 9}}));
}

TEST(NodeScan, refuses_what_has_no_name) {
  EXPECT_EQ(scan_node("{}", {}).error().message, "the node has no metadata.name");
  EXPECT_EQ(scan_node("{\"metadata\":{\"name\":\"n\"}", {}).error().message, "the node is not JSON");
  EXPECT_EQ(scan_node("", {}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(*scan_name(R"({"spec":{"name":"other"},"metadata":{"name":"n"}})"), "n");
  EXPECT_FALSE(scan_name("[]"));
}

}  // namespace
}  // namespace lockstep::placement
