#include "operator/cli/cluster_reading.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "operator/api/lookup.h"
#include "operator/api/training_job.h"
#include "operator/placement/presets.h"

namespace lockstep::cli {
namespace {

using placement::Profile;

constexpr const char* kLevelFlag = "--topology-level";
constexpr const char* kSignFlags[] = {"--avoid-nodes", "--leave-nodes", "--dead-nodes"};
constexpr const char* kNotEnded = "status.phase!=Succeeded,status.phase!=Failed";
// As the chart labels it.
constexpr const char* kOperatorLabels = "app.kubernetes.io/name=lockstep,app.kubernetes.io/component=operator";

// All objects of a kind, page by page.
Status each_text(kube::Api& api, const kube::Resource& resource, const std::string& field_selector,
                 const std::function<void(std::string_view)>& on_item) {
  kube::ListOptions list{.field_selector = field_selector};
  do {
    const auto end = api.list_text(resource, list, on_item);
    if (!end && end.error().code == ErrorCode::kForbidden) {
      return fail(ErrorCode::kForbidden,
                  fmt::format("it reads the {} of {}, which needs the right to list them: {}", resource.plural,
                              resource.namespaced ? "all namespaces" : "the cluster", end.error().message));
    }
    if (!end) return end.error();
    list.continue_token = end->continue_token;
  } while (!list.continue_token.empty());
  return {};
}

// Counts what cannot be read, and keeps the first reason.
struct Unreadable {
  int count = 0;
  std::string first;

  void note(const Error& error) {
    if (count++ == 0) first = error.message;
  }
  void tell(const char* what, std::vector<std::string>& notes) const {
    if (count > 0) notes.push_back(fmt::format("{} {} cannot be read and are left out: {}", count, what, first));
  }
};

// The presets' labels and those that a cluster with these shapes keeps.
placement::LabelKeys keys_for(const Profile& profile, const std::vector<placement::Shape>& shapes) {
  placement::Cluster cluster(profile);
  for (const placement::Shape& shape : shapes) cluster.acquire(shape);
  placement::LabelKeys keys = cluster.label_keys();
  for (const Profile& preset : placement::presets()) {
    for (const placement::Level& level : preset.levels) keys.insert(level.label);
  }
  return keys;
}

// The profile of these flags.
Result<Profile> given_profile(const std::vector<std::string>& flags) {
  Profile profile{kLevelFlag, {}};
  for (const std::string& flag : flags) {
    auto level = placement::level_of_flag(flag);
    if (!level) return level.error().in(std::string(kLevelFlag) + " " + flag);
    profile.levels.push_back(*std::move(level));
  }
  LOCKSTEP_CHECK_OK(placement::check(profile));
  return profile;
}

// What follows `flag` in the arguments of a container.
std::vector<std::string> values_of(const kube::Json& pod, const std::string& flag) {
  std::vector<std::string> values;
  for (const kube::Json& container : api::at(api::at(pod, "spec"), "containers")) {
    bool is_next = false;
    for (const kube::Json& argument : api::at(container, "args")) {
      const std::string text = api::text_of(argument);
      if (is_next) values.push_back(text);
      if (text.starts_with(flag + "=")) values.push_back(text.substr(flag.size() + 1));
      is_next = !is_next && text == flag;
    }
  }
  return values;
}

// The newest pod of the operator: the right to list the pods of all namespaces is enough. None where there is none, or
// without this right, without which the pods cannot be read later, and that error names it.
Result<std::optional<kube::Json>> newest_operator(kube::Api& api) {
  auto page = api.list(kube::kPods, {.label_selector = kOperatorLabels, .field_selector = kNotEnded});
  if (!page && page.error().code == ErrorCode::kForbidden) return std::optional<kube::Json>();
  if (!page) return page.error();
  const auto created = [](const kube::Json& pod) {
    return api::text_of(api::at(api::at(pod, "metadata"), "creationTimestamp"));
  };
  const auto newest = std::max_element(page->items.begin(), page->items.end(),
                                       [&](const auto& a, const auto& b) { return created(a) < created(b); });
  if (newest == page->items.end()) return std::optional<kube::Json>();
  return std::optional<kube::Json>(std::move(*newest));
}

std::string name_of(const kube::Json& pod) {
  const kube::Json& meta = api::at(pod, "metadata");
  return api::text_of(api::at(meta, "namespace")) + "/" + api::text_of(api::at(meta, "name"));
}

// The levels of the operator, by its pod's arguments. Sets reading.operator_pod where they can be read.
Profile operators_profile(const kube::Json& pod, ClusterReading& reading) {
  auto profile = given_profile(values_of(pod, kLevelFlag));
  if (!profile) {
    reading.notes.push_back(
        fmt::format("the levels of the operator's pod {} cannot be read: {}", name_of(pod), profile.error().message));
    return Profile{};
  }
  reading.operator_pod = name_of(pod);
  profile->name = "operator";
  return *std::move(profile);
}

// The signs of sick nodes that the operator looks for, by its pod's arguments.
placement::SickSigns operators_signs(const kube::Json& pod, ClusterReading& reading) {
  std::vector<std::string> flags;
  for (const char* flag : kSignFlags) {
    for (std::string& value : values_of(pod, flag)) flags.push_back(std::move(value));
  }
  auto signs = placement::SickSigns::of_flags(flags);
  if (signs) return *std::move(signs);
  reading.notes.push_back(fmt::format("what the operator's pod {} takes for a sick node cannot be read: {}",
                                      name_of(pod), signs.error().message));
  return {};
}

// `name` is one of preset_names().
Result<Profile> preset_for(const std::string& name, const std::vector<api::Labels>& labels) {
  for (const Profile& preset : placement::presets()) {
    if (preset.name != name) continue;
    if (auto profile = placement::fit_preset(preset, labels)) return *std::move(profile);
    std::vector<std::string> keys;
    for (const placement::Level& level : preset.levels) keys.push_back(level.label);
    return fail(ErrorCode::kNotFound, fmt::format("--preset {}: no node has any of its labels {}; "
                                                  "--topology-level NAME=LABEL names others",
                                                  name, fmt::join(keys, ", ")));
  }
  return fail(ErrorCode::kInvalid, fmt::format("--preset {}: there is none of that name", name));
}

Status read_jobs(kube::Api& api, ClusterReading& reading) {
  kube::ListOptions list;
  do {
    LOCKSTEP_TRY(const auto page, api.list(kube::kTrainingJobs, list));
    for (const kube::Json& object : page.items) {
      const auto meta = api::parse_meta(object);
      if (!meta) continue;
      reading.jobs[placement::Uid::of(meta->uid)] = {meta->name_space + "/" + meta->name,
                                                     meta->created.value_or(WallTime())};
    }
    list.continue_token = page.continue_token;
  } while (!list.continue_token.empty());
  return {};
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Profile& preset : placement::presets()) names.push_back(preset.name);
  return names;
}

Result<ClusterReading> read_cluster(kube::Api& api, const ProfileChoice& choice,
                                    const std::vector<placement::Shape>& shapes, const placement::Uid& self) {
  if (!choice.levels.empty() && !choice.preset.empty()) {
    return fail(ErrorCode::kInvalid, "--topology-level and --preset exclude each other");
  }
  LOCKSTEP_TRY(Profile profile, given_profile(choice.levels));
  ClusterReading reading;
  placement::SickSigns signs;
  LOCKSTEP_TRY(const auto newest, newest_operator(api));
  if (newest) {
    signs = operators_signs(*newest, reading);
    if (choice.levels.empty() && choice.preset.empty()) profile = operators_profile(*newest, reading);
  }
  std::vector<placement::NodeRecord> nodes;
  std::vector<api::Labels> labels;
  Unreadable bad_nodes, bad_pods;
  const placement::LabelKeys keys = keys_for(profile, shapes);
  LOCKSTEP_CHECK_OK(each_text(api, kube::kNodes, "", [&](std::string_view text) {
    auto node = placement::scan_node(text, keys, signs);
    if (!node) return bad_nodes.note(node.error());
    labels.push_back(node->labels);
    nodes.push_back(*std::move(node));
  }));
  bad_nodes.tell("nodes", reading.notes);
  reading.profile_source = "--topology-level";
  if (!choice.preset.empty()) {
    LOCKSTEP_TRY(profile, preset_for(choice.preset, labels));
    reading.profile_source = "--preset";
  } else if (!reading.operator_pod.empty() && !(profile.levels.empty() && choice.discover)) {
    reading.profile_source = "operator";
  } else if (choice.levels.empty()) {
    auto fits = placement::fit_preset(labels);
    reading.profile_source = fits ? "discovered" : "none";
    profile = fits ? *std::move(fits) : Profile{"none", {}};
  }
  reading.cluster = std::make_unique<placement::Cluster>(std::move(profile));
  for (const placement::Shape& shape : shapes) reading.shapes.push_back(reading.cluster->acquire(shape));
  reading.cluster->begin_nodes();
  for (const placement::NodeRecord& node : nodes) reading.cluster->put_node(node);
  reading.cluster->end_nodes();

  reading.cluster->begin_pods();
  LOCKSTEP_CHECK_OK(each_text(api, kube::kPods, kNotEnded, [&](std::string_view text) {
    const auto pod = placement::scan_pod(text);
    if (!pod) return bad_pods.note(pod.error());
    if (!self.is_zero() && pod->job == self && !pod->terminal) {
      if ((pod->flags & placement::kBound) == 0) return;
      if ((pod->flags & placement::kTerminating) == 0) ++reading.own[pod->node];
    }
    reading.cluster->put_pod(*pod);
  }));
  reading.cluster->end_pods();
  const auto now = std::chrono::floor<std::chrono::seconds>(SystemClock::instance().wall_now());
  reading.cluster->pass_time(now.time_since_epoch().count());
  bad_pods.tell("pods", reading.notes);
  if (const Status read = read_jobs(api, reading); !read) {
    reading.notes.push_back("the names of TrainingJobs are not known: " + read.error().message);
  }
  return reading;
}

}  // namespace lockstep::cli
