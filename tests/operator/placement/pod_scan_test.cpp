// A pod's facts from its text. The requests are a table: each case names the rule of kube-scheduler that it shows.
#include "operator/placement/pod_scan.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace lockstep::placement {
namespace {

ScannedPod scanned_pod(const std::string& text) {
  auto pod = scan_pod(text);
  EXPECT_TRUE(pod) << pod.error().message << " in " << text;
  return pod.value_or({});
}

std::string requests_of(const std::string& spec, const std::string& status = "{}") {
  std::string text;
  for (const Amount& amount :
       scanned_pod(fmt::format(R"({{"metadata":{{"uid":"u"}},"spec":{},"status":{}}})", spec, status)).requests) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", amount.name, amount.units);
  }
  return text;
}

struct RequestCase {
  const char* rule;
  const char* spec;
  const char* expected;
  const char* status = "{}";
};

const RequestCase kRequestCases[] = {
    {"a pod takes one place of the node's pod limit, whatever else it asks for", R"({"containers":[{}]})", "pods=1"},
    {"containers add up",
     R"({"containers":[{"resources":{"requests":{"cpu":"500m","nvidia.com/gpu":"2"}}},
                       {"resources":{"requests":{"cpu":"1","memory":"1Ki"}}}]})",
     "cpu=1500 memory=1024 nvidia.com/gpu=2 pods=1"},
    {"a limit stands in for a request that is not named",
     R"({"containers":[{"resources":{"limits":{"cpu":"2","nvidia.com/gpu":8},"requests":{"cpu":"1"}}}]})",
     "cpu=1000 nvidia.com/gpu=8 pods=1"},
    {"an init container counts where it needs more than all containers",
     R"({"containers":[{"resources":{"requests":{"cpu":"1","memory":"3"}}},{"resources":{"requests":{"cpu":"1"}}}],
         "initContainers":[{"resources":{"requests":{"cpu":"5","memory":"2"}}}]})",
     "cpu=5000 memory=3 pods=1"},
    {"init containers run one by one: the largest counts",
     R"({"initContainers":[{"resources":{"requests":{"cpu":"2"}}},{"resources":{"requests":{"cpu":"3"}}}]})",
     "cpu=3000 pods=1"},
    {"a sidecar adds to the containers",
     R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}],
         "initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"2"}}}]})",
     "cpu=3000 pods=1"},
    {"an init container needs its own and those of the sidecars before it",
     R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}],
         "initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"2"}}},
                           {"resources":{"requests":{"cpu":"5"}}}]})",
     "cpu=7000 pods=1"},
    {"a sidecar that starts later is not there for an init container before it",
     R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}],
         "initContainers":[{"resources":{"requests":{"cpu":"5"}}},
                           {"resources":{"requests":{"cpu":"2"}},"restartPolicy":"Always"}]})",
     "cpu=5000 pods=1"},
    {"sidecars alone add up while pods start",
     R"({"initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}},
                           {"restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}}]})",
     "cpu=2000 pods=1"},
    {"overhead is added to what the containers ask for",
     R"({"overhead":{"cpu":"250m","memory":"10"},"containers":[{"resources":{"requests":{"cpu":"1"}}}]})",
     "cpu=1250 memory=10 pods=1"},
    {"overhead is added to what an init container asks for",
     R"({"overhead":{"cpu":"1"},"initContainers":[{"resources":{"requests":{"cpu":"4"}}}]})", "cpu=5000 pods=1"},
    {"resources of the pod replace the sum of cpu, memory and hugepages",
     R"({"resources":{"requests":{"cpu":"9","memory":"7","hugepages-2Mi":"4Mi"}},
         "containers":[{"resources":{"requests":{"cpu":"1","memory":"1","example.com/nic":"1"}}}]})",
     "cpu=9000 example.com/nic=1 hugepages-2Mi=4194304 memory=7 pods=1"},
    {"resources of the pod may be less than the sum",
     R"({"resources":{"requests":{"cpu":"1"}},"containers":[{"resources":{"requests":{"cpu":"3"}}}]})",
     "cpu=1000 pods=1"},
    {"other resources of the pod do not count",
     R"({"resources":{"requests":{"nvidia.com/gpu":"9"}},"containers":[{"resources":{"limits":{"nvidia.com/gpu":1}}}]})",
     "nvidia.com/gpu=1 pods=1"},
    {"a limit of the pod stands in where neither it nor a container requests",
     R"({"resources":{"limits":{"cpu":"9","memory":"9"}},"containers":[{"resources":{"requests":{"cpu":"1"}}}]})",
     "cpu=1000 memory=9 pods=1"},
    {"overhead is added to the resources of the pod",
     R"({"resources":{"requests":{"cpu":"2"}},"overhead":{"cpu":"1"}})", "cpu=3000 pods=1"},
    {"a resize under way counts as the larger of before and after: down",
     R"({"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]})", "cpu=4000 pods=1",
     R"({"containerStatuses":[{"name":"c","resources":{"requests":{"cpu":"4"}},"allocatedResources":{"cpu":"2"}}]})"},
    {"a resize under way counts as the larger of before and after: up",
     R"({"containers":[{"name":"c","resources":{"requests":{"cpu":"5"}}}]})", "cpu=5000 pods=1",
     R"({"containerStatuses":[{"name":"c","resources":{"requests":{"cpu":"4"}},"allocatedResources":{"cpu":"2"}}]})"},
    {"a resize that the node cannot do does not count",
     R"({"containers":[{"name":"c","resources":{"requests":{"cpu":"50"}}}]})", "cpu=4000 pods=1",
     R"({"conditions":[{"type":"PodResizePending","reason":"Infeasible"},{"type":"Ready","reason":"x"}],
         "containerStatuses":[{"name":"c","resources":{"requests":{"cpu":"4"}},"allocatedResources":{"cpu":"2"}}]})"},
    {"a resize of a sidecar counts as that of a container",
     R"({"initContainers":[{"name":"s","restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}}]})",
     "cpu=3000 pods=1", R"({"initContainerStatuses":[{"name":"s","resources":{"requests":{"cpu":"3"}}}]})"},
    {"the status of an init container that is no sidecar does not count",
     R"({"initContainers":[{"name":"i","resources":{"requests":{"cpu":"1"}}}]})", "cpu=1000 pods=1",
     R"({"initContainerStatuses":[{"name":"i","resources":{"requests":{"cpu":"3"}}}]})"},
    {"a status without resources does not count",
     R"({"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]})", "cpu=1000 pods=1",
     R"({"containerStatuses":[{"name":"c","allocatedResources":{"cpu":"2"}}]})"},
    {"milli-CPUs and bytes are rounded up",
     R"({"containers":[{"resources":{"requests":{"cpu":"1100u","memory":"1m"}}}]})", "cpu=2 memory=1 pods=1"},
    {"fractions are added before they are rounded",
     R"({"containers":[{"resources":{"requests":{"memory":"500m"}}},{"resources":{"requests":{"memory":"500m"}}}]})",
     "memory=1 pods=1"},
    {"numbers are read as well as strings", R"({"containers":[{"resources":{"requests":{"cpu":0.5,"memory":1e3}}}]})",
     "cpu=500 memory=1000 pods=1"},
    {"zero is not asked for", R"({"containers":[{"resources":{"requests":{"cpu":"0","memory":"0Gi"}}}]})", "pods=1"},
    {"a negative amount frees nothing",
     R"({"containers":[{"resources":{"requests":{"cpu":"-5"}}},{"resources":{"requests":{"cpu":"1"}}}]})",
     "cpu=1000 pods=1"},
    {"sums stay at the most instead of overflowing",
     R"({"containers":[{"resources":{"requests":{"memory":"8Ei"}}},{"resources":{"requests":{"memory":"1e99"}}}]})",
     "memory=9223372036854775807 pods=1"},
    {"an amount that cannot be read is more than any node has",
     R"({"containers":[{"resources":{"requests":{"memory":"lots"}}}]})", "memory=9223372036854775807 pods=1"},
    {"a pod cannot ask for more or fewer places of the pod limit",
     R"({"containers":[{"resources":{"requests":{"pods":"40"}}}]})", "pods=1"},
};

TEST(PodRequests, are_those_of_kube_scheduler) {
  for (const auto& [rule, spec, expected, status] : kRequestCases) {
    EXPECT_EQ(requests_of(spec, status), expected) << rule;
  }
}

TEST(PodRequests, do_not_depend_on_the_order_of_members) {
  EXPECT_EQ(scanned_pod(R"({"status":{"containerStatuses":[{"resources":{"requests":{"cpu":"3"}},"name":"c"}]},"spec":
                        {"containers":[{"resources":{"requests":{"cpu":"1"}},"name":"c"}]},"metadata":{"uid":"u"}})")
                .requests[0],
            (Amount{"cpu", 3000}));
}

TEST(PodScan, keeps_who_the_pod_is_and_where_it_lies) {
  const auto pod =
      scanned_pod(R"({"metadata":{"name":"j-1","namespace":"ml","uid":"01234567-89ab-cdef-fedc-ba9876543210",
      "deletionTimestamp":"2026-11-24T12:00:00Z","labels":{"lockstep.dev/job-uid":"11111111-1111-1111-1111-111111111111",
      "lockstep.dev/slot":"12"},"annotations":{"lockstep.dev/node":"other"}},
      "spec":{"nodeName":"gpu-7","priority":1000,"containers":[{"ports":[{"containerPort":80,"hostPort":80}]}]},
      "status":{"phase":"Running","startTime":"2026-11-20T12:34:56Z"}})");
  EXPECT_EQ(pod.name_space, "ml");
  EXPECT_EQ(pod.name, "j-1");
  EXPECT_EQ(pod.uid, Uid::of("01234567-89ab-cdef-fedc-ba9876543210"));
  EXPECT_EQ(pod.job, Uid::of("11111111-1111-1111-1111-111111111111"));
  EXPECT_EQ(pod.slot, 12);
  EXPECT_EQ(pod.node, "gpu-7");
  EXPECT_EQ(pod.priority, 1000);
  EXPECT_EQ(pod.started, 1'795'178'096u);
  EXPECT_EQ(pod.flags, kBound | kTerminating | kHostPorts);
  EXPECT_FALSE(pod.terminal);
}

TEST(PodScan, a_gated_pod_of_a_job_reserves_the_node_of_its_annotation) {
  const char* pod = R"({{"metadata":{{"uid":"u","labels":{{{}"lockstep.dev/slot":"3"}},"annotations":{{
      "lockstep.dev/node":"n"}}}},"spec":{{"schedulingGates":[{{"name":"g"}},{{"name":"lockstep.dev/placement"}}]}}}})";
  const auto ours = scanned_pod(fmt::format(fmt::runtime(pod), R"("lockstep.dev/job-uid":"j",)"));
  EXPECT_EQ(ours.node, "n");
  EXPECT_EQ(ours.flags, kGated);
  const auto foreign = scanned_pod(fmt::format(fmt::runtime(pod), ""));
  EXPECT_EQ(foreign.node, "") << "the annotation of a pod that belongs to no job says nothing";
  EXPECT_EQ(foreign.slot, -1);
}

TEST(PodScan, a_pod_with_a_gate_of_others_alone_is_not_gated) {
  EXPECT_EQ(scanned_pod(R"({"metadata":{"uid":"u"},"spec":{"schedulingGates":[{"name":"g"}]}})").flags, 0);
}

TEST(PodScan, only_succeeded_and_failed_pods_are_terminal) {
  for (const auto& [phase, terminal] : std::vector<std::pair<const char*, bool>>{{"Pending", false},
                                                                                 {"Running", false},
                                                                                 {"Unknown", false},
                                                                                 {"", false},
                                                                                 {"Succeeded", true},
                                                                                 {"Failed", true}}) {
    EXPECT_EQ(scanned_pod(fmt::format(R"({{"metadata":{{"uid":"u"}},"status":{{"phase":"{}"}}}})", phase)).terminal,
              terminal)
        << phase;
  }
}

TEST(PodScan, host_ports_are_a_flag) {
  const auto flags = [](const char* spec) {
    return scanned_pod(fmt::format(R"({{"metadata":{{"uid":"u"}},"spec":{}}})", spec)).flags;
  };
  EXPECT_EQ(flags(R"({"containers":[{"ports":[{"containerPort":80,"hostPort":0}]}]})"), 0);
  EXPECT_EQ(flags(R"({"containers":[{"ports":[{"hostPort":8080}]}]})"), kHostPorts);
  EXPECT_EQ(flags(R"({"hostNetwork":true,"containers":[{"ports":[{"containerPort":80}]}]})"), kHostPorts);
  EXPECT_EQ(flags(R"({"hostNetwork":true,"containers":[{}]})"), 0);
}

TEST(PodScan, refuses_what_has_no_uid) {
  EXPECT_EQ(scan_pod("{}").error().message, "the pod has no metadata.uid");
  EXPECT_EQ(scan_pod("{\"metadata\":{\"uid\":\"u\"}").error().message, "the pod is not JSON");
  EXPECT_EQ(scan_pod("{\"metadata\":{\"uid\":\"u\"}} x").error().message, "the pod is not JSON");
  EXPECT_EQ(scan_pod("").error().code, ErrorCode::kInvalid);
}

TEST(Uid, of_a_uuid_is_its_bits_and_of_another_text_a_hash) {
  const Uid uid = Uid::of("01234567-89ab-cdef-fedc-ba9876543210");
  EXPECT_EQ(uid.bytes[0], 0x01);
  EXPECT_EQ(uid.bytes[15], 0x10);
  EXPECT_NE(Uid::of("01234567-89ab-cdef-fedc-ba987654321g"), uid);
  EXPECT_NE(Uid::of("a"), Uid::of("b"));
  EXPECT_EQ(Uid::of("d1a86bd8ba2ae29ac6a4f6a1a9bb9a9a"), Uid::of("d1a86bd8ba2ae29ac6a4f6a1a9bb9a9a"));
  EXPECT_FALSE(Uid::of("").is_zero());
}

TEST(PodScan, a_start_that_cannot_be_read_is_none) {
  for (const char* time : {"", "soon", "2026-11-20", "1969-12-31T23:59:59Z", "2150-01-01T00:00:00Z",
                           "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2610-01-01T00:00:00Z"}) {
    EXPECT_EQ(scanned_pod(fmt::format(R"({{"metadata":{{"uid":"u"}},"status":{{"startTime":"{}"}}}})", time)).started,
              0u)
        << time;
  }
  EXPECT_EQ(scanned_pod(R"({"metadata":{"uid":"u"},"status":{"startTime":7}})").started, 0u);
}

}  // namespace
}  // namespace lockstep::placement
