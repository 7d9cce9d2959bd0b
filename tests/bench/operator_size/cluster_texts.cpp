#include "tests/bench/operator_size/cluster_texts.h"

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>
#include <vector>

namespace lockstep::bench {
namespace {

using Json = nlohmann::json;

constexpr int kNodesOfARack = 16, kRacksOfABlock = 16;
constexpr int kImages = 50;  // a kubelet reports at most so many
constexpr const char* kTime = "2026-01-02T03:04:05Z";

// A text with holes `<0>` to `<9>`: an object is built once, and written for each node or pod.
class Form {
 public:
  explicit Form(const Json& object) : text_(object.dump()) {
    std::size_t from = 0;
    for (std::size_t at = 0; (at = text_.find('<', at)) != std::string::npos; ++at) {
      if (text_[at + 2] != '>') continue;
      parts_.push_back(std::string_view(text_).substr(from, at - from));
      holes_.push_back(static_cast<std::size_t>(text_[at + 1] - '0'));
      from = at + 3;
    }
    parts_.push_back(std::string_view(text_).substr(from));
  }
  Form(const Form&) = delete;
  Form& operator=(const Form&) = delete;

  std::string with(std::initializer_list<std::string_view> values) const {
    std::string result;
    result.reserve(text_.size() + 40 * holes_.size());
    for (std::size_t i = 0; i < holes_.size(); ++i) {
      result += parts_[i];
      result += values.begin()[holes_[i]];
    }
    return result += parts_.back();
  }

 private:
  const std::string text_;
  std::vector<std::string_view> parts_;
  std::vector<std::size_t> holes_;
};

// fieldsV1 of an object: a key for each field, and for each entry of a list that has a name or a type.
Json fields_of(const Json& value) {
  Json fields = Json::object();
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) fields["f:" + key] = fields_of(inner);
  } else if (value.is_array()) {
    for (const Json& entry : value) {
      if (!entry.is_object()) continue;
      for (const char* key : {"name", "type"}) {
        if (!entry.contains(key)) continue;
        Json inner = fields_of(entry);
        inner["."] = Json::object();
        fields[fmt::format(R"(k:{{"{}":{}}})", key, entry[key].dump())] = std::move(inner);
        break;
      }
    }
  }
  return fields;
}

Json condition(const char* type, const char* status, const char* reason, const char* message) {
  return {{"type", type},       {"status", status},           {"reason", reason},
          {"message", message}, {"lastHeartbeatTime", kTime}, {"lastTransitionTime", kTime}};
}

Json images() {
  Json images = Json::array();
  for (int i = 0; i < kImages; ++i) {
    const std::string image = fmt::format("registry.example.com/machine-learning/training-image-{:02}", i);
    images.push_back(
        {{"names", {fmt::format("{}@sha256:{:064x}", image, i + 1), fmt::format("{}:2026.01.{}", image, i)}},
         {"sizeBytes", 8'000'000'000 + i}});
  }
  return images;
}

// Holes: name, uid, block, rack, version, beats.
Json node_form() {
  Json labels{{"kubernetes.io/hostname", "<0>"},
              {"kubernetes.io/os", "linux"},
              {"kubernetes.io/arch", "amd64"},
              {"node.kubernetes.io/instance-type", "gpu-16x.metal"},
              {"topology.kubernetes.io/region", "region-1"},
              {"topology.kubernetes.io/zone", "zone-1"},
              {kBlockLabel, "<2>"},
              {kRackLabel, "<3>"}};
  for (int i = 0; i < 32; ++i) labels[fmt::format("nvidia.com/gpu.feature-{:02}", i)] = fmt::format("value-{:02}", i);
  Json annotations{{"node.alpha.kubernetes.io/ttl", "0"},
                   {"csi.volume.kubernetes.io/nodeid", R"({"csi.example.com":"<0>"})"}};
  for (int i = 0; i < 8; ++i)
    annotations[fmt::format("networking.example.com/interface-{}", i)] = "10.1.2.3/24,mtu=9000";
  const Json amounts{{"cpu", "192"},   {"memory", "2113458560Ki"}, {"ephemeral-storage", "7651325132Ki"},
                     {"pods", "110"},  {"hugepages-2Mi", "0"},     {"nvidia.com/gpu", std::to_string(kGpusOfANode)},
                     {"rdma/hca", "8"}};
  Json node{
      {"apiVersion", "v1"},
      {"kind", "Node"},
      {"metadata",
       {{"name", "<0>"},
        {"uid", "<1>"},
        {"creationTimestamp", kTime},
        {"labels", labels},
        {"annotations", annotations}}},
      {"spec",
       {{"podCIDR", "10.2.3.0/24"},
        {"podCIDRs", Json::array({"10.2.3.0/24"})},
        {"providerID", "example:///zone-1/<0>"}}},
      {"status",
       {{"capacity", amounts},
        {"allocatable", amounts},
        {"addresses", {{{"type", "InternalIP"}, {"address", "10.0.0.1"}}, {{"type", "Hostname"}, {"address", "<0>"}}}},
        {"daemonEndpoints", {{"kubeletEndpoint", {{"Port", 10250}}}}},
        {"nodeInfo",
         {{"machineID", "<1>"},
          {"systemUUID", "<1>"},
          {"bootID", "<1>"},
          {"kernelVersion", "6.8.0-1021"},
          {"osImage", "Ubuntu 24.04.1 LTS"},
          {"containerRuntimeVersion", "containerd://1.7.24"},
          {"kubeletVersion", "v1.31.4"},
          {"operatingSystem", "linux"},
          {"architecture", "amd64"}}},
        {"conditions",
         {condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
          condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
          condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
          condition("Ready", "True", "KubeletReady", "kubelet is posting ready status, report <5>")}},
        {"images", images()}}}};
  Json& meta = node["metadata"];
  meta["managedFields"] = managed_fields(node);
  meta["resourceVersion"] = "<4>";
  return node;
}

Json container(const std::string& name) {
  Json environment = Json::array(), mounts = Json::array();
  for (int i = 0; i < 12; ++i) {
    environment.push_back({{"name", fmt::format("SETTING_{:02}", i)}, {"value", "a value of some thirty characters"}});
  }
  for (int i = 0; i < 4; ++i) {
    mounts.push_back({{"name", fmt::format("volume-{}", i)}, {"mountPath", fmt::format("/var/lib/data-{}", i)}});
  }
  return {{"name", name},
          {"image", "registry.example.com/services/" + name + ":2026.01.1"},
          {"env", environment},
          {"volumeMounts", mounts},
          {"ports", Json::array({{{"name", "http"}, {"containerPort", 8080}, {"protocol", "TCP"}}})},
          {"resources", {{"requests", {{"cpu", "250m"}, {"memory", "512Mi"}}}, {"limits", {{"memory", "1Gi"}}}}},
          {"readinessProbe",
           {{"httpGet", {{"path", "/ready"}, {"port", "http"}, {"scheme", "HTTP"}}}, {"periodSeconds", 10}}},
          {"terminationMessagePath", "/dev/termination-log"},
          {"terminationMessagePolicy", "File"},
          {"imagePullPolicy", "IfNotPresent"}};
}

// Holes: name, uid, node, version.
Json pod_form(bool bound) {
  Json containers = Json::array(), statuses = Json::array(), volumes = Json::array();
  for (const char* name : {"server", "proxy", "log-shipper"}) {
    containers.push_back(container(name));
    statuses.push_back({{"name", name},
                        {"image", containers.back()["image"]},
                        {"imageID", fmt::format("registry.example.com/services/{}@sha256:{:064x}", name, 7)},
                        {"containerID", fmt::format("containerd://{:064x}", 9)},
                        {"ready", true},
                        {"started", true},
                        {"restartCount", 0},
                        {"state", {{"running", {{"startedAt", kTime}}}}}});
  }
  for (int i = 0; i < 4; ++i) {
    volumes.push_back(
        {{"name", fmt::format("volume-{}", i)}, {"configMap", {{"name", "settings"}, {"defaultMode", 420}}}});
  }
  Json labels{{"app.kubernetes.io/name", "service"},
              {"app.kubernetes.io/instance", "service-production"},
              {"app.kubernetes.io/version", "2026.01.1"},
              {"pod-template-hash", "7d9f6c8b54"}};
  Json pod{{"apiVersion", "v1"},
           {"kind", "Pod"},
           {"metadata",
            {{"name", "<0>"},
             {"generateName", "service-7d9f6c8b54-"},
             {"namespace", "services"},
             {"uid", "<1>"},
             {"creationTimestamp", kTime},
             {"labels", labels},
             {"annotations", {{"prometheus.io/scrape", "true"}, {"checksum/config", fmt::format("{:064x}", 11)}}},
             {"ownerReferences", Json::array({{{"apiVersion", "apps/v1"},
                                               {"kind", "ReplicaSet"},
                                               {"name", "service-7d9f6c8b54"},
                                               {"uid", "11111111-2222-4333-8444-555555555555"},
                                               {"controller", true},
                                               {"blockOwnerDeletion", true}}})}}},
           {"spec",
            {{"containers", containers},
             {"volumes", volumes},
             {"serviceAccountName", "service"},
             {"schedulerName", "default-scheduler"},
             {"priority", 0},
             {"restartPolicy", "Always"},
             {"dnsPolicy", "ClusterFirst"},
             {"terminationGracePeriodSeconds", 30},
             {"tolerations",
              {{{"key", "node.kubernetes.io/not-ready"},
                {"operator", "Exists"},
                {"effect", "NoExecute"},
                {"tolerationSeconds", 300}},
               {{"key", "node.kubernetes.io/unreachable"},
                {"operator", "Exists"},
                {"effect", "NoExecute"},
                {"tolerationSeconds", 300}}}}}},
           {"status", {{"phase", bound ? "Running" : "Pending"}, {"qosClass", "Burstable"}}}};
  if (bound) {
    pod["spec"]["nodeName"] = "<2>";
    pod["status"]["hostIP"] = "10.0.0.1";
    pod["status"]["podIP"] = "10.2.3.4";
    pod["status"]["startTime"] = kTime;
    pod["status"]["containerStatuses"] = statuses;
    for (const char* type : {"Initialized", "Ready", "ContainersReady", "PodScheduled"}) {
      pod["status"]["conditions"].push_back({{"type", type}, {"status", "True"}, {"lastTransitionTime", kTime}});
    }
  }
  Json& meta = pod["metadata"];
  meta["managedFields"] = managed_fields(pod);
  meta["resourceVersion"] = "<3>";
  return pod;
}

std::string uid(std::uint32_t kind, int life, int number) {
  return fmt::format("{:08x}-0000-4000-8000-{:012x}", kind + static_cast<std::uint32_t>(life), number);
}

}  // namespace

std::string node_name(int node) {
  return fmt::format("gpu-node-{:06}.cluster.example.com", node);
}

std::string node_text(int node, std::int64_t beats, const std::string& version) {
  static const Form form(node_form());
  const int rack = node / kNodesOfARack;
  return form.with({node_name(node), uid(0xa0000000, 0, node), fmt::format("block-{:03}", rack / kRacksOfABlock),
                    fmt::format("rack-{:05}", rack), version, std::to_string(beats)});
}

std::string pod_text(const PodOfOthers& pod, const std::string& version) {
  static const Form bound(pod_form(true)), pending(pod_form(false));
  return (pod.bound ? bound : pending)
      .with({fmt::format("service-7d9f6c8b54-{:06}-{}", pod.number, pod.life), uid(0xb0000000, pod.life, pod.number),
             node_name(pod.node), version});
}

nlohmann::json managed_fields(const nlohmann::json& object) {
  const auto entry = [](const char* manager, Json fields) {
    return Json{{"manager", manager}, {"operation", "Update"},    {"apiVersion", "v1"},
                {"time", kTime},      {"fieldsType", "FieldsV1"}, {"fieldsV1", std::move(fields)}};
  };
  Json written = object;
  written.erase("status");
  Json reported = Json::object();
  if (object.contains("status")) reported["status"] = object["status"];
  return Json::array({entry("kube-controller-manager", fields_of(written)), entry("kubelet", fields_of(reported))});
}

}  // namespace lockstep::bench
