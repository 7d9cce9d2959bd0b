#include "operator/local/pod_process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lockstep::local {
namespace {

using nlohmann::json;

Machine machine() {
  Machine result;
  result.folder = "/out";
  result.agent = "/bin/true";
  result.program_folders = {"/usr/bin"};
  result.environment = {"PATH=/bin", "A=machine", "B=machine"};
  return result;
}

json pod(json container, json volumes = json::array()) {
  container["name"] = "trainer";
  if (!container.contains("command")) container["command"] = {"/lockstep/lockstep-agent", "run", "--", "sh"};
  return {{"metadata", {{"name", "p"}, {"namespace", "n"}, {"uid", "u"}, {"labels", {{"lockstep.dev/slot", "3"}}}}},
          {"spec", {{"containers", {container}}, {"volumes", volumes}}}};
}

bool has(const PodProcess& process, const std::string& variable) {
  const auto& all = process.process.environment;
  return std::find(all.begin(), all.end(), variable) != all.end();
}

TEST(PodProcess, the_machines_agent_stands_for_the_pods) {
  const auto process = make_pod_process(pod({{"args", {"-c", "true"}}}), machine());
  ASSERT_TRUE(process.ok()) << process.error().message;
  EXPECT_EQ(process->process.program, "/bin/true");
  EXPECT_EQ(process->process.argv, (std::vector<std::string>{"/bin/true", "run", "--", "sh", "-c", "true"}));
}

TEST(PodProcess, a_path_of_the_image_is_looked_up_by_its_name) {
  const json given = pod({{"command", {"/lockstep/lockstep-agent", "run", "--", "/opt/image/bin/env"}}});
  EXPECT_EQ(make_pod_process(given, machine())->process.argv[3], "/usr/bin/env");
}

TEST(PodProcess, the_pods_variables_lie_over_the_machines) {
  const auto process = make_pod_process(
      pod({{"env",
            {{{"name", "A"}, {"value", "pod"}},
             {{"name", "SLOT"},
              {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.labels['lockstep.dev/slot']"}}}}}}}}}),
      machine());
  ASSERT_TRUE(process.ok()) << process.error().message;
  EXPECT_TRUE(has(*process, "A=pod"));
  EXPECT_TRUE(has(*process, "B=machine"));
  EXPECT_TRUE(has(*process, "SLOT=3"));
  EXPECT_TRUE(has(*process, "PATH=/usr/bin:/bin"));
}

TEST(PodProcess, volumes_become_folders_of_the_job) {
  const auto process =
      make_pod_process(pod({{"volumeMounts",
                             {{{"name", "c"}, {"mountPath", "/data"}, {"subPath", "a/b"}, {"readOnly", true}},
                              {{"name", "e"}, {"mountPath", "/scratch"}},
                              {{"name", "h"}, {"mountPath", "/host"}},
                              {{"name", "s"}, {"mountPath", "/dev/shm"}}}}},
                           {{{"name", "c"}, {"persistentVolumeClaim", {{"claimName", "set"}}}},
                            {{"name", "e"}, {"emptyDir", json::object()}},
                            {{"name", "h"}, {"hostPath", {{"path", "/usr"}}}},
                            {{"name", "s"}, {"emptyDir", {{"medium", "Memory"}}}}}),
                       machine());
  ASSERT_TRUE(process.ok()) << process.error().message;
  EXPECT_EQ(process->process.mounts, (std::vector<Mount>{{"/out/claims/set/a/b", "/data", true},
                                                         {"/out/volumes/p/e", "/scratch", false},
                                                         {"/usr", "/host", false}}));
}

TEST(PodProcess, fields_that_a_machine_cannot_provide_are_refused_by_name) {
  const auto sentence = [](const json& given) {
    const auto process = make_pod_process(given, machine());
    return process ? "accepted" : process.error().message;
  };
  const std::string end = " without a cluster: remove it from the job file for `lockstep run`";
  EXPECT_EQ(sentence(pod({{"volumeMounts", {{{"name", "v"}, {"mountPath", "/v"}}}}},
                         {{{"name", "v"}, {"configMap", {{"name", "x"}}}}})),
            "the volume \"v\" (configMap) cannot be given" + end);
  EXPECT_EQ(sentence(pod({{"volumeMounts", {{{"name", "v"}, {"mountPath", "/v"}}}}})),
            "spec.volumeMounts names the volume \"v\", which spec.volumes does not have");
  EXPECT_EQ(sentence(pod({{"volumeMounts", {{{"name", "v"}, {"mountPath", "/v"}}}}},
                         {{{"name", "v"}, {"hostPath", {{"path", "/not/here"}}}}})),
            "the volume \"v\" needs /not/here, which this machine does not have");
  EXPECT_EQ(sentence(pod({{"volumeMounts", {{{"name", "v"}, {"mountPath", "/v"}, {"subPath", "../x"}}}}},
                         {{{"name", "v"}, {"emptyDir", json::object()}}})),
            "the volume mounted at /v must not have \"..\" in its path");
  EXPECT_EQ(sentence(pod({{"envFrom", {{{"secretRef", {{"name", "x"}}}}}}})),
            "spec.envFrom takes variables from a ConfigMap or a Secret, which is not there" + end);
  EXPECT_EQ(
      sentence(pod({{"env", {{{"name", "A"}, {"valueFrom", {{"secretKeyRef", {{"name", "x"}, {"key", "k"}}}}}}}}})),
      "the variable A takes its value from a Secret, which is not there" + end);
  EXPECT_EQ(sentence(pod({{"command", {"no-such-program"}}})),
            "the command \"no-such-program\" was found neither beside lockstep nor in PATH");
}

TEST(PodProcess, nothing_that_a_pod_may_hold_is_fatal) {
  for (const json& odd : {json(), json(3), json::object(), json{{"spec", 1}}, json{{"spec", {{"containers", "x"}}}},
                          json{{"spec", {{"containers", {1}}}}}, pod({{"env", 1}, {"volumeMounts", "x"}}),
                          pod({{"command", {1, json::object()}}})}) {
    (void)make_pod_process(odd, machine());
  }
}

TEST(Expand, knows_names_escapes_and_leaves_the_rest) {
  const std::vector<std::pair<std::string, std::string>> variables = {{"A", "1"}, {"B", "$(A)"}};
  EXPECT_EQ(expand("$(A) $(B) $(C) $$(A) $A $ $(", variables), "1 $(A) $(C) $(A) $A $ $(");
}

}  // namespace
}  // namespace lockstep::local
