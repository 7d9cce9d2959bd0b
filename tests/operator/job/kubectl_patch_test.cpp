// The strategic merge against its reference, `kubectl patch --local --type=strategic`, on random patches. The seed is
// printed; LOCKSTEP_SEED=<number> repeats a run.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "operator/job/strategic_merge.h"

namespace lockstep::job::kubectl_patch_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kPatches = 500;

// Where tests/cluster/binaries.sh keeps what it has built; LOCKSTEP_KUBECTL names another.
fs::path kubectl() {
  if (const char* given = std::getenv("LOCKSTEP_KUBECTL")) return given;
  const char* home = std::getenv("HOME");
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const fs::path root = cache != nullptr ? fs::path(cache) : fs::path(home != nullptr ? home : "/") / ".cache";
  std::error_code ignored;
  for (const auto& version : fs::directory_iterator(root / "lockstep" / "cluster", ignored)) {
    if (const fs::path program = version.path() / "bin" / "kubectl"; fs::exists(program, ignored)) return program;
  }
  return {};
}

class PatchMaker {
 public:
  explicit PatchMaker(std::uint64_t seed) : random_(seed) {}

  static Json pod() {
    return Json::parse(R"({"apiVersion": "v1", "kind": "Pod",
      "metadata": {"name": "p", "labels": {"a": "1", "b": "2"}, "annotations": {"n": "1"}},
      "spec": {"restartPolicy": "Never", "hostname": "p", "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "nodeSelector": {"zone": "a", "disk": "ssd"},
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "s0"}, {"name": "s1"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["x"]}, {"ip": "10.0.0.2", "hostnames": ["y"]}],
        "topologySpreadConstraints": [{"topologyKey": "t0", "maxSkew": 1}, {"topologyKey": "t1", "maxSkew": 2}],
        "initContainers": [{"name": "c0", "image": "i"}],
        "containers": [
          {"name": "c1", "image": "i", "command": ["a", "b"],
           "env": [{"name": "E0", "value": "0"}, {"name": "E1", "value": "1"}, {"name": "E2", "value": "2"}],
           "ports": [{"containerPort": 80, "name": "x"}, {"containerPort": 81, "name": "y"}],
           "resources": {"limits": {"cpu": "1"}},
           "volumeMounts": [{"name": "v0", "mountPath": "/0"}, {"name": "v1", "mountPath": "/1"}]},
          {"name": "c2", "image": "j", "env": [{"name": "E0", "value": "0"}]}],
        "volumes": [{"name": "v0", "emptyDir": {}}, {"name": "v1", "emptyDir": {"medium": "Memory"}}, {"name": "v2", "emptyDir": {}}]}})");
  }

  Json patch() {
    Json patch = Json::object();
    if (chance(3)) patch["metadata"] = metadata();
    patch["spec"] = spec();
    return patch;
  }

 private:
  bool chance(int one_in) { return below(one_in) == 0; }
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  std::string number() { return std::to_string(below(100)); }

  Json metadata() {
    Json labels = Json::object();
    for (int i = below(3); i >= 0; --i)
      labels[std::string(1, static_cast<char>('a' + below(4)))] = maybe_null(number());
    return {{below(2) == 0 ? "labels" : "annotations", std::move(labels)}};
  }

  Json maybe_null(Json value) { return chance(5) ? Json() : value; }

  // A list of distinct named entries, some of them directives.
  template <typename Key, typename Body>
  Json list(int names, Key key_of, const char* key, Body body) {
    Json result = Json::array();
    std::vector<int> order(static_cast<size_t>(names));
    for (int i = 0; i < names; ++i) order[static_cast<size_t>(i)] = i;
    std::shuffle(order.begin(), order.end(), random_);
    order.resize(static_cast<size_t>(1 + below(names)));
    const bool replace = chance(8);
    if (replace) result.push_back({{"$patch", "replace"}});
    for (const int i : order) {
      Json entry = !replace && chance(5) ? Json{{"$patch", "delete"}} : body(i, replace);
      entry[key] = key_of(i);
      result.push_back(std::move(entry));
    }
    return result;
  }

  Json container(bool is_new) {
    Json result{{"image", number()}};
    if (chance(2)) result["command"] = Json::array({number(), number()});
    if (chance(2)) result["workingDir"] = maybe_null(fmt::format("/{}", below(9)));
    if (chance(2)) result["resources"] = Json{{"limits", {{"cpu", number()}, {"memory", maybe_null(number())}}}};
    // kubectl leaves directives inside entries that are new; those patches are refused here, so none are made.
    if (is_new) return result;
    const auto name = [](const char* prefix) { return [prefix](int i) { return fmt::format("{}{}", prefix, i); }; };
    if (chance(2)) {
      result["env"] = list(5, name("E"), "name", [&](int, bool) { return Json{{"value", maybe_null(number())}}; });
    }
    if (chance(2)) {
      result["ports"] = list(
          4, [](int i) { return 79 + i; }, "containerPort",
          [&](int, bool) {
            return Json{{"protocol", "TCP"}};
          });
    }
    if (chance(2)) {
      result["volumeMounts"] = list(4, name("/"), "mountPath", [&](int, bool) {
        return Json{{"name", fmt::format("v{}", below(3))}};
      });
    }
    return result;
  }

  Json spec() {
    Json spec = Json::object();
    const auto name = [](const char* prefix) { return [prefix](int i) { return fmt::format("{}{}", prefix, i); }; };
    if (chance(2)) {
      // c1 and c2 are there, c3 and c4 are new.
      spec["containers"] = list(
          4, [](int i) { return fmt::format("c{}", i + 1); }, "name",
          [&](int i, bool replaced) { return container(replaced || i > 1); });
    }
    if (chance(3)) {
      spec["initContainers"] =
          list(3, name("c"), "name", [&](int i, bool replaced) { return container(replaced || i > 0); });
    }
    if (chance(2)) {
      spec["volumes"] = list(5, name("v"), "name", [&](int, bool) {
        return chance(2) ? Json{{"emptyDir", {{"sizeLimit", number()}}}}
                         : Json{{"emptyDir", nullptr}, {"hostPath", {{"path", "/x"}}}};
      });
    }
    if (chance(3)) spec["imagePullSecrets"] = list(4, name("s"), "name", [](int, bool) { return Json::object(); });
    if (chance(3)) {
      spec["hostAliases"] = list(4, name("10.0.0."), "ip", [&](int, bool) { return Json{{"hostnames", {number()}}}; });
    }
    if (chance(3)) {
      spec["topologySpreadConstraints"] = list(3, name("t"), "topologyKey", [&](int, bool) {
        return Json{{"maxSkew", 1 + below(5)}};
      });
    }
    if (chance(3)) spec["tolerations"] = Json::array({Json{{"key", number()}}});
    if (chance(3)) spec["nodeSelector"] = Json{{"zone", maybe_null("b")}, {"new", maybe_null(number())}};
    if (chance(5)) spec["nodeSelector"] = Json{{"$patch", chance(2) ? "replace" : "delete"}, {"only", "this"}};
    if (chance(4))
      spec["affinity"] =
          maybe_null(Json{{"nodeAffinity", {{"preferredDuringSchedulingIgnoredDuringExecution", Json::array()}}}});
    if (chance(4)) spec["hostNetwork"] = maybe_null(true);
    if (chance(4)) spec["hostname"] = maybe_null(number());
    if (chance(4)) spec["priorityClassName"] = maybe_null(number());
    return spec;
  }

  std::mt19937_64 random_;
};

// kubectl keeps nulls of patches in some places; to the API server they are the same as nothing.
Json without_nulls(const Json& value) {
  if (value.is_array()) {
    Json result = Json::array();
    for (const Json& item : value) result.push_back(without_nulls(item));
    return result;
  }
  if (!value.is_object()) return value;
  Json result = Json::object();
  for (const auto& [key, item] : value.items()) {
    if (!item.is_null()) result[key] = without_nulls(item);
  }
  return result;
}

// Runs kubectl with its output in `out`; its exit status.
int run_kubectl(const fs::path& program, const fs::path& folder, int number) {
  const std::string pod = folder / "pod.json", patch = folder / (std::to_string(number) + ".patch");
  const std::string out = folder / (std::to_string(number) + ".out");
  const std::string patch_flag = "--patch-file=" + patch;
  const char* arguments[] = {
      program.c_str(), "patch", "--local", "--type=strategic", "-f", pod.c_str(), patch_flag.c_str(), "-o",
      "json",          nullptr};
  // Without its garbage collector and threads a short run costs half the CPU.
  const char* environment[] = {"KUBECONFIG=/dev/null", "HOME=/nonexistent", "GOGC=off", "GOMAXPROCS=1", nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, const_cast<char* const*>(arguments),
                                const_cast<char* const*>(environment));
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  if (error == 0) waitpid(pid, &status, 0);
  return status;
}

TEST(StrategicMerge, agrees_with_kubectl_on_random_patches) {
  const fs::path program = kubectl();
  if (program.empty()) GTEST_SKIP() << "kubectl was not built yet: run tests/cluster/binaries.sh kubectl";
  const char* given = std::getenv("LOCKSTEP_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("seed %llu (LOCKSTEP_SEED repeats it)\n", static_cast<unsigned long long>(seed));

  std::string folder = fs::temp_directory_path() / "lockstep-patch-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  PatchMaker maker(seed);
  std::vector<Json> patches;
  std::ofstream(fs::path(folder) / "pod.json") << PatchMaker::pod().dump();
  for (int i = 0; i < kPatches; ++i) {
    patches.push_back(maker.patch());
    std::ofstream(fs::path(folder) / (std::to_string(i) + ".patch")) << patches.back().dump();
  }
  std::atomic<int> next{0};
  std::vector<int> statuses(kPatches, -1);
  {
    std::vector<std::jthread> workers;
    for (unsigned i = 0; i < std::max(2U, std::thread::hardware_concurrency()); ++i) {
      workers.emplace_back([&] {
        for (int n = next++; n < kPatches; n = next++)
          statuses[static_cast<size_t>(n)] = run_kubectl(program, folder, n);
      });
    }
  }
  for (int i = 0; i < kPatches; ++i) {
    const Json& patch = patches[static_cast<size_t>(i)];
    std::stringstream text;
    text << std::ifstream(fs::path(folder) / (std::to_string(i) + ".out")).rdbuf();
    const auto ours = strategic_merge(PatchMaker::pod(), patch, "patch");
    ASSERT_TRUE(ours) << "seed " << seed << " patch " << i << ": " << patch << "\n" << ours.error().message;
    ASSERT_EQ(statuses[static_cast<size_t>(i)], 0) << "seed " << seed << " patch " << i << ": " << patch << "\n"
                                                   << text.str();
    const Json theirs = Json::parse(text.str(), nullptr, false);
    ASSERT_EQ(without_nulls(*ours), without_nulls(theirs)) << "seed " << seed << " patch " << i << ": " << patch;
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::job::kubectl_patch_test
