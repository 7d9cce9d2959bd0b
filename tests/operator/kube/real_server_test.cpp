// The contract against a real API server: LOCKSTEP_TEST_KUBECONFIG names its kubeconfig. Uses a namespace of its own
// for each test, and installs the CRD from manifests/crd.yaml where it is missing.
#include <fmt/format.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <atomic>
#include <cstdlib>

#include "operator/base/metrics.h"
#include "operator/kube/http_api.h"
#include "operator/kube/kubeconfig.h"
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
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
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

INSTANTIATE_TEST_SUITE_P(RealServer, ApiContract, testing::Values(real_server()),
                         [](const auto& parameter) { return parameter.param.name; });
INSTANTIATE_TEST_SUITE_P(RealServer, ServerContract, testing::Values(real_server()),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace lockstep::kube::contract
