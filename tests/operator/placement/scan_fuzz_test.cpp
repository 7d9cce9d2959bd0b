// The fuzz target on small random changes of a pod and a node.
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <string>

#include "operator/placement/node_scan.h"
#include "operator/placement/pod_scan.h"
#include "tests/fuzz/on_small_changes.h"

extern "C" int placement_scan_fuzz(const std::uint8_t* data, size_t size);

namespace lockstep::placement {
namespace {

const std::string kSeeds[] = {
    R"({"kind":"Pod","metadata":{"name":"p","uid":"01234567-89ab-cdef-0123-456789abcdef","labels":{
"lockstep.dev/job-uid":"f","lockstep.dev/slot":"3"},"annotations":{"lockstep.dev/node":"n"}},"spec":{"nodeName":"n","priority":7,"overhead":
{"cpu":"1"},"resources":{"requests":{"cpu":"2"},"limits":{"memory":"1Gi"}},"schedulingGates":[{"name":"g"}],
"containers":[{"name":"c","resources":{"requests":{"cpu":"100m"},"limits":{"nvidia.com/gpu":8}},"ports":[{"hostPort":
80}]}],"initContainers":[{"name":"i","restartPolicy":"Always","resources":{"requests":{"memory":1e3}}}]},"status":
{"phase":"Running","startTime":"2026-11-20T12:34:56Z","conditions":[{"type":"PodResizePending","reason":"Infeasible"}],
"containerStatuses":[{"name":"c","resources":{"requests":{"cpu":"3"}},"allocatedResources":{"cpu":"4"}}]}})",
    R"({"kind":"Node","metadata":{"name":"n","labels":{"rack":"r","other":"o"}},"spec":{"unschedulable":true,"taints":
[{"key":"k","value":"v","effect":"NoSchedule"}]},"status":{"allocatable":{"cpu":"96","memory":"2Ti","nvidia.com/gpu":
"8","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}})"};

TEST(Scan, of_anything_does_no_harm) {
  run_on_small_changes(placement_scan_fuzz, {std::begin(kSeeds), std::end(kSeeds)},
                       "[]{}:,\"\\-+.0123456789eEmKin \n\xff\xc3\x80", 30'000);
}

TEST(Scan, of_a_text_of_brackets_neither_recurses_nor_grows) {
  for (const char* bracket : {"[", "{\"metadata\":", "{\"a\":["}) {
    std::string text;
    while (text.size() < (1U << 20U)) text += bracket;
    EXPECT_FALSE(scan_pod(text));
    EXPECT_FALSE(scan_node(text, {}));
  }
}

TEST(Scan, of_a_deep_value_on_a_path_does_not_recurse) {
  const std::string deep = std::string(1U << 20U, '[') + std::string(1U << 20U, ']');
  const auto pod = scan_pod(R"({"metadata":{"uid":"u","name":)" + deep + "}}");
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_EQ(pod->name, "");
}

TEST(Scan, bounds_what_one_object_may_hold) {
  const auto pod = [](const std::string& spec) {
    return scan_pod(R"({"metadata":{"uid":"u"},"spec":{)" + spec + "}}");
  };
  std::string containers = R"("containers":[{})", resources = R"("overhead":{"r":1)", taints;
  for (int i = 0; i < 1100; ++i) containers += ",{}";
  for (int i = 0; i < 70; ++i) resources += ",\"r" + std::to_string(i) + "\":1";
  for (int i = 0; i < 300; ++i) taints += i == 0 ? "{}" : ",{}";
  EXPECT_EQ(pod(containers + "]").error().message, "the pod has more than 1024 containers");
  EXPECT_EQ(pod(resources + "}").error().message, "the pod names more than 64 resources");
  EXPECT_EQ(scan_node(R"({"metadata":{"name":"n"},"spec":{"taints":[)" + taints + "]}}", {}).error().message,
            "the node has more than 256 taints");
}

}  // namespace
}  // namespace lockstep::placement
