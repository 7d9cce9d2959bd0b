#include "operator/placement/sickness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace lockstep::placement {
namespace {

constexpr std::pair<SignKind, std::string_view> kKinds[] = {
    {SignKind::kCondition, "condition"}, {SignKind::kTaint, "taint"}, {SignKind::kLabel, "label"}};

std::vector<Sign> conditions(const char* status, std::initializer_list<const char*> types) {
  std::vector<Sign> signs;
  for (const char* type : types) signs.push_back({SignKind::kCondition, type, status});
  return signs;
}

Result<std::vector<Sign>> preset_of(std::string_view name) {
  std::vector<std::string> names;
  for (const SignPreset& preset : sign_presets()) {
    if (preset.name == name) return preset.signs;
    names.push_back(preset.name);
  }
  return fail(ErrorCode::kInvalid,
              fmt::format("there is no preset \"{}\"; there are {}", name, fmt::join(names, ", ")));
}

Result<Sign> sign_of(std::string_view flag) {
  const auto colon = flag.find(':');
  const auto known = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& kind) {
    return colon != std::string_view::npos && flag.substr(0, colon) == kind.second;
  });
  if (known == std::end(kKinds)) {
    return fail(ErrorCode::kInvalid, fmt::format("\"{}\" must begin with condition:, taint:, label: or preset:", flag));
  }
  const std::string_view rest = flag.substr(colon + 1);
  const auto equals = rest.find('=');
  Sign sign{known->first, std::string(rest.substr(0, equals)), {}};
  if (equals == std::string_view::npos) return sign;
  sign.value = rest.substr(equals + 1);
  if (sign.value.empty() && sign.kind != SignKind::kCondition) {
    return fail(ErrorCode::kInvalid, fmt::format("\"{}\" names no value; leave = out for any value", flag));
  }
  return sign;
}

Status check(const Sign& sign) {
  if (sign.key.empty()) return fail(ErrorCode::kInvalid, fmt::format("\"{}\" names no key", text_of(sign)));
  if (sign.kind != SignKind::kCondition) return {};
  if (sign.value == "True" || sign.value == "False" || sign.value == "Unknown") return {};
  return fail(ErrorCode::kInvalid,
              fmt::format("\"{}\" must end with the status that is bad: =True, =False or =Unknown", text_of(sign)));
}

}  // namespace

std::string text_of(const Sign& sign) {
  const auto kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& known) { return known.first == sign.kind; });
  return fmt::format("{}:{}{}{}", kind->second, sign.key, sign.value.empty() ? "" : "=", sign.value);
}

const std::vector<SignPreset>& sign_presets() {
  static const std::vector<SignPreset> all = {
      {"nvsentinel",
       conditions("True", {"GpuMemWatch", "GpuThermalWatch", "GpuPcieWatch", "GpuPowerWatch", "GpuInforomWatch",
                           "GpuSmWatch", "GpuNvlinkWatch", "GpuMcuWatch", "GpuPmuWatch", "GpuDriverWatch",
                           "GpuCpusetWatch", "SysLogsXIDError", "SysLogsSXIDError", "SysLogsGPUFallenOff",
                           "NVSwitchFatalError", "NVSwitchDown", "DCGMError", "CSPMaintenance"})},
      {"eks", conditions("False", {"AcceleratedHardwareReady", "KernelReady", "NetworkingReady", "StorageReady"})},
      {"hyperpod",
       {{SignKind::kLabel, "sagemaker.amazonaws.com/node-health-status", "Unschedulable"},
        {SignKind::kLabel, "sagemaker.amazonaws.com/node-health-status", "UnschedulablePendingReboot"},
        {SignKind::kLabel, "sagemaker.amazonaws.com/node-health-status", "UnschedulablePendingReplacement"}}},
      {"aks",
       conditions("True", {"GPUMissing", "NVLinkStatusInactive", "XIDErrors", "IBLinkFlapping", "VMEventScheduled"})},
      {"gke",
       {{SignKind::kLabel, "cloud.google.com/active-node-maintenance", "ONGOING"},
        {SignKind::kTaint, "cloud.google.com/impending-node-termination", ""}}},
      {"gke-scheduled", {{SignKind::kLabel, "cloud.google.com/scheduled-maintenance-time", ""}}},
      {"autoscalers",
       {{SignKind::kTaint, "ToBeDeletedByClusterAutoscaler", ""},
        {SignKind::kTaint, "aws-node-termination-handler/spot-itn", ""},
        {SignKind::kTaint, "karpenter.sh/disrupted", ""}}},
  };
  return all;
}

Result<SickSigns> SickSigns::of_flags(const std::vector<std::string>& flags) {
  std::vector<Sign> signs;
  for (const std::string& flag : flags) {
    constexpr std::string_view kPreset = "preset:";
    if (!flag.starts_with(kPreset)) {
      LOCKSTEP_TRY(Sign sign, sign_of(flag));
      signs.push_back(std::move(sign));
      continue;
    }
    LOCKSTEP_TRY(const auto preset, preset_of(std::string_view(flag).substr(kPreset.size())));
    signs.insert(signs.end(), preset.begin(), preset.end());
  }
  if (signs.size() > kMost) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{} signs of sick nodes, at most {} are looked for", signs.size(), kMost));
  }
  SickSigns made;
  for (Sign& sign : signs) {
    LOCKSTEP_CHECK_OK(check(sign));
    made.by_key_[sign.key].push_back(made.signs_.size());
    made.signs_.push_back(std::move(sign));
  }
  return made;
}

std::size_t SickSigns::find(SignKind kind, std::string_view key, std::string_view value) const {
  const auto known = by_key_.find(key);
  if (known == by_key_.end()) return kNone;
  for (const std::size_t i : known->second) {
    if (signs_[i].kind == kind && (signs_[i].value.empty() || signs_[i].value == value)) return i;
  }
  return kNone;
}

}  // namespace lockstep::placement
