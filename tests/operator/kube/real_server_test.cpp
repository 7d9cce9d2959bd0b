// The contract against a real API server: LOCKSTEP_TEST_KUBECONFIG names its kubeconfig. Uses a namespace of its own
// for each test, and installs the CRD from manifests/crd.yaml where it is missing.
#include <fmt/format.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include "operator/base/metrics.h"
#include "operator/kube/http_api.h"
#include "operator/kube/kubeconfig.h"
#include "operator/kube/wire_messages.h"
#include "tests/operator/kube/api_contract.h"

namespace lockstep::kube::contract {
namespace {

const Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};
const Resource kCrds{"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false};

Json to_json(const YAML::Node& node) {
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& member : node) object[member.first.as<std::string>()] = to_json(member.second);
    return object;
  }
  if (node.IsSequence()) {
    Json array = Json::array();
    for (const auto& item : node) array.push_back(to_json(item));
    return array;
  }
  if (node.IsNull()) return nullptr;
  const std::string text = node.as<std::string>();
  if (node.Tag() == "!") return text;  // quoted
  const Json plain = Json::parse(text, nullptr, false);
  return plain.is_number() || plain.is_boolean() ? plain : Json(text);
}

class RealServer final : public Subject {
 public:
  static std::unique_ptr<Subject> make() {
    auto made = std::make_unique<RealServer>();
    const auto started = made->start();
    EXPECT_TRUE(started) << started.error().message;
    return started ? std::move(made) : nullptr;
  }
  ~RealServer() override {
    if (api_ && !name_space_.empty()) static_cast<void>(api_->remove(kNamespaces, "", name_space_));
  }
  Api& api() override { return *api_; }
  std::string name_space() const override { return name_space_; }

  Status start() {
    auto& clock = SystemClock::instance();
    AccessOptions options;
    options.kubeconfig = std::getenv("LOCKSTEP_TEST_KUBECONFIG");
    LOCKSTEP_TRY(const auto access, find_access(options, process_environment(), clock));
    LOCKSTEP_TRY(api_, make_http_api(access, process_environment(), clock, metrics_));
    LOCKSTEP_CHECK_OK(install_crd());
    static std::atomic<int> number = 0;
    name_space_ = fmt::format("contract-{}-{}", getpid(), ++number);
    LOCKSTEP_TRY(
        const Json made,
        api_->create(kNamespaces, "",
                     {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name_space_}}}}, {}));
    // A server that was never restarted may still know its whole history.
    static const bool forgets = [this] {
      const auto ended = api_->watch(kConfigMaps, {.resource_version = "1", .timeout_seconds = 1},
                                     [](const WatchEvent&) { return true; }, {});
      return !ended && ended.error().code == ErrorCode::kGone;
    }();
    if (forgets) forgotten_version = "1";
    bookmark_timeout_seconds = 8;  // a bookmark comes two seconds before the end, later on a busy server
    return {};
  }

 private:
  Status install_crd() {
    if (api_->list(kTrainingJobs, {.limit = 1})) return {};
    const Json crd = to_json(YAML::LoadFile(LOCKSTEP_SOURCE_DIR "/manifests/crd.yaml"));
    auto made = api_->create(kCrds, "", crd, {});
    if (!made && made.error().code != ErrorCode::kAlreadyExists) return made.error();
    for (int i = 0; i < 100; ++i) {
      if (api_->list(kTrainingJobs, {.limit = 1})) return {};
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // no watch tells when the server serves a kind
    }
    return fail(ErrorCode::kDeadlineExceeded, "the CRD was not served within 10 s");
  }

  MetricsRegistry metrics_;
  std::unique_ptr<Api> api_;
  std::string name_space_;
};

Parameter real_server() {
  const char* kubeconfig = std::getenv("LOCKSTEP_TEST_KUBECONFIG");
  if (kubeconfig == nullptr || *kubeconfig == '\0') {
    return {"real", nullptr, "LOCKSTEP_TEST_KUBECONFIG names no kubeconfig of a cluster to test against"};
  }
  return {"real", &RealServer::make, ""};
}

// Features of a server that knows schemas and field managers.
class ServerContract : public ApiContract {};

TEST_P(ServerContract, an_applied_object_is_the_whole_intent) {
  Json intent{
      {"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", "a"}}}, {"data", {{"x", "1"}, {"y", "1"}}}};
  const auto made = api().patch(kConfigMaps, name_space(), "a", PatchType::kApply, intent);
  ASSERT_TRUE(made) << made.error().message;
  const auto same = api().patch(kConfigMaps, name_space(), "a", PatchType::kApply, intent);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(version(*same), version(*made));
  intent["data"] = {{"x", "2"}};
  const auto changed = api().patch(kConfigMaps, name_space(), "a", PatchType::kApply, intent);
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_EQ((*changed)["data"], (Json{{"x", "2"}}));
}

TEST_P(ServerContract, strict_validation_names_the_unknown_field) {
  Json pod{{"apiVersion", "v1"},
           {"kind", "Pod"},
           {"metadata", {{"name", "a"}}},
           {"spec", {{"containers", Json::array({{{"name", "c"}, {"image", "i"}, {"imagePulPolicy", "Never"}}})}}}};
  const auto refused = api().create(kPods, name_space(), pod, {.strict = true, .dry_run = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_NE(refused.error().message.find("imagePulPolicy"), std::string::npos) << refused.error().message;
  const auto lenient = api().create(kPods, name_space(), pod, {.dry_run = true});
  EXPECT_TRUE(lenient) << lenient.error().message;
}

TEST_P(ServerContract, an_impossible_object_is_invalid_and_says_why) {
  const auto refused = api().create(kConfigMaps, name_space(), config_map("Not_A_Name"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_NE(refused.error().message.find("Not_A_Name"), std::string::npos) << refused.error().message;
}

// A pod that has a value in each field of the tables.
const Json kFullSpec = Json::parse(R"({
  "nodeName": "no-such-node", "hostNetwork": true, "priorityClassName": "system-cluster-critical",
  "overhead": {"cpu": "250m"}, "runtimeClassName": "wire",
  "tolerations": [{"operator": "Exists"}],
  "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}},
  "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchExpressions": [{"key": "x", "operator": "Exists"}]}]}}},
  "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {
    "requests": {"cpu": "1", "lockstep.dev/device": "1"}, "limits": {"cpu": "2", "lockstep.dev/device": "1"}}}],
  "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always", "ports": [{"containerPort": 81,
    "hostPort": 81}], "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]})");
const Json kFullStatus = Json::parse(R"({
  "phase": "Running", "reason": "r", "message": "m", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
  "hostIP": "10.0.0.2", "startTime": "2026-11-28T12:00:02Z",
  "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m",
    "lastTransitionTime": "2026-11-28T12:00:01Z"}],
  "initContainerStatuses": [{"name": "i", "ready": true, "restartCount": 1, "image": "i", "imageID": "",
    "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
    "state": {"running": {"startedAt": "2026-11-28T12:00:03Z"}}}],
  "containerStatuses": [{"name": "c", "ready": true, "restartCount": 3, "image": "i", "imageID": "",
    "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
    "allocatedResourcesStatus": [{"name": "lockstep.dev/device",
      "resources": [{"resourceID": "0", "health": "Unhealthy"}]}],
    "state": {"terminated": {"exitCode": 137, "signal": 9, "reason": "Error", "message": "tail",
      "startedAt": "2026-11-28T12:00:03Z", "finishedAt": "2026-11-28T12:00:04Z", "containerID": "x://y"}}},
    {"name": "waits", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
      "state": {"waiting": {"reason": "r", "message": "m"}}}]})");

// What the tables have of JSON, without what is empty, zero or false.
Json cut_to(const WireMessage& message, const Json& object) {
  Json kept = Json::object();
  for (const WireField& field : message.fields) {
    const auto found = object.find(field.name);
    if (found == object.end() || *found == "" || *found == 0 || *found == false) continue;
    if (field.kind != WireField::Kind::kMessage) {
      kept[std::string(field.name)] = *found;
    } else if (field.repeated) {
      for (const Json& element : *found) kept[std::string(field.name)].push_back(cut_to(*field.message, element));
    } else {
      kept[std::string(field.name)] = cut_to(*field.message, *found);
    }
  }
  return kept;
}

// Adds the fields that an object has, for each table.
void add_shown(const WireMessage& message, const Json& object,
               std::map<const WireMessage*, std::set<std::string_view>>& shown) {
  auto& fields = shown[&message];
  for (const WireField& field : message.fields) {
    const auto found = object.find(field.name);
    if (found == object.end()) continue;
    fields.insert(field.name);
    if (field.kind != WireField::Kind::kMessage) continue;
    for (const Json& element : field.repeated ? *found : Json::array({*found})) {
      add_shown(*field.message, element, shown);
    }
  }
}

TEST_P(ServerContract, a_pod_is_the_same_in_protobuf_and_in_json) {
  const Json runtime_class{{"apiVersion", "node.k8s.io/v1"},
                           {"kind", "RuntimeClass"},
                           {"metadata", {{"name", "wire"}}},
                           {"handler", "none"},
                           {"overhead", {{"podFixed", {{"cpu", "250m"}}}}}};
  const Resource classes{"node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false};
  const auto with_class = api().create(classes, "", runtime_class);
  ASSERT_TRUE(with_class || with_class.error().code == ErrorCode::kAlreadyExists) << with_class.error().message;
  const auto owner = api().create(kConfigMaps, name_space(), config_map("owner"));
  ASSERT_TRUE(owner) << owner.error().message;
  Json pod{{"apiVersion", "v1"},
           {"kind", "Pod"},
           {"metadata",
            {{"name", "wire"},
             {"labels", {{"x", "1"}, {"empty", ""}}},
             {"annotations", {{"note", "\"quoted\" \u00fc\n"}}},
             {"finalizers", {"lockstep.dev/test"}},
             {"ownerReferences",
              {{{"apiVersion", "v1"},
                {"kind", "ConfigMap"},
                {"name", "owner"},
                {"uid", (*owner)["metadata"]["uid"]},
                {"controller", true}}}}}},
           {"spec", kFullSpec}};
  const auto made = api().create(kPods, name_space(), pod);
  ASSERT_TRUE(made) << made.error().message;
  pod["metadata"]["name"] = "gated";
  pod["spec"].erase("nodeName");
  pod["spec"]["schedulingGates"] = {{{"name", "lockstep.dev/test"}}};
  ASSERT_TRUE(api().create(kPods, name_space(), pod));
  const auto filled =
      api().patch(kPods, name_space(), "wire", PatchType::kMerge, Json{{"status", kFullStatus}}, "status");
  ASSERT_TRUE(filled) << filled.error().message;
  ASSERT_TRUE(api().remove(kPods, name_space(), "wire")) << "the finalizer keeps it, with a deletionTimestamp";

  const WireMessage& message = *message_of(kPods);
  const JsonPaths everything{};
  std::vector<Json> in_protobuf, in_json;
  const auto list = [&](const JsonPaths* fields, std::vector<Json>& items) {
    return api().list_text(kPods, {.name_space = name_space(), .fields = fields},
                           [&](std::string_view item) { items.push_back(Json::parse(item)); });
  };
  ASSERT_TRUE(list(&everything, in_protobuf));
  ASSERT_TRUE(list(nullptr, in_json));
  for (const char* name : {"wire", "gated"}) {
    static_cast<void>(
        api().patch(kPods, name_space(), name, PatchType::kMerge, Json{{"metadata", {{"finalizers", nullptr}}}}));
    static_cast<void>(api().remove(kPods, name_space(), name, {.grace_period_seconds = 0}));
  }
  static_cast<void>(api().remove(classes, "", "wire"));
  ASSERT_EQ(in_protobuf.size(), 2U);
  ASSERT_EQ(in_json.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(in_protobuf[i], cut_to(message, in_json[i]));
  std::map<const WireMessage*, std::set<std::string_view>> shown;
  for (const Json& item : in_protobuf) add_shown(message, item, shown);
  for (const auto& [table, fields] : shown) {
    for (const WireField& field : table->fields) EXPECT_TRUE(fields.contains(field.name)) << field.name;
  }
}

INSTANTIATE_TEST_SUITE_P(RealServer, ApiContract, testing::Values(real_server()),
                         [](const auto& parameter) { return parameter.param.name; });
INSTANTIATE_TEST_SUITE_P(RealServer, ServerContract, testing::Values(real_server()),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace lockstep::kube::contract
