#include "operator/placement/sickness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::placement {
namespace {

TEST(SickSigns, are_read_from_flags) {
  const auto signs = SickSigns::of_flags(
      {"condition:XIDErrors=True", "taint:example.com/broken", "label:pool=old", "taint:example.com/state=bad"});
  ASSERT_TRUE(signs) << signs.error().message;
  EXPECT_EQ(signs->all(), (std::vector<Sign>{{SignKind::kCondition, "XIDErrors", "True"},
                                             {SignKind::kTaint, "example.com/broken", ""},
                                             {SignKind::kLabel, "pool", "old"},
                                             {SignKind::kTaint, "example.com/state", "bad"}}));
  EXPECT_TRUE(SickSigns::of_flags({})->all().empty());
}

TEST(SickSigns, every_fault_of_a_flag_has_one_sentence) {
  const std::pair<std::string, std::string> table[] = {
      {"XIDErrors=True", "\"XIDErrors=True\" must begin with condition:, taint:, label: or preset:"},
      {"", "\"\" must begin with condition:, taint:, label: or preset:"},
      {"label:", "\"label:\" names no key"},
      {"condition:=True", "\"condition:=True\" names no key"},
      {"condition:XIDErrors",
       "\"condition:XIDErrors\" must end with the status that is bad: =True, =False or =Unknown"},
      {"condition:XIDErrors=true",
       "\"condition:XIDErrors=true\" must end with the status that is bad: =True, =False or =Unknown"},
      {"label:state=", "\"label:state=\" names no value; leave = out for any value"},
      {"preset:azure",
       "there is no preset \"azure\"; there are nvsentinel, eks, hyperpod, aks, gke, gke-scheduled, autoscalers"},
  };
  for (const auto& [flag, message] : table) {
    const auto signs = SickSigns::of_flags({flag});
    ASSERT_FALSE(signs) << flag;
    EXPECT_EQ(signs.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(signs.error().message, message);
  }
}

TEST(SickSigns, are_bounded) {
  std::vector<std::string> flags;
  for (std::size_t i = 0; i < SickSigns::kMost; ++i) flags.push_back("label:l" + std::to_string(i));
  EXPECT_TRUE(SickSigns::of_flags(flags));
  flags.push_back("label:one-more");
  EXPECT_EQ(SickSigns::of_flags(flags).error().message, "257 signs of sick nodes, at most 256 are looked for");
}

TEST(SickSigns, each_preset_is_read_by_its_name) {
  std::vector<std::string> all;
  for (const SignPreset& preset : sign_presets()) {
    const auto signs = SickSigns::of_flags({"preset:" + preset.name});
    ASSERT_TRUE(signs) << preset.name << ": " << signs.error().message;
    EXPECT_EQ(signs->all(), preset.signs);
    all.push_back("preset:" + preset.name);
  }
  EXPECT_TRUE(SickSigns::of_flags(all)) << "together";
}

// EKS says True of what works, NVSentinel of what does not.
TEST(SickSigns, the_bad_status_is_that_of_the_vendor) {
  const auto signs = *SickSigns::of_flags({"preset:nvsentinel", "preset:eks"});
  const auto bad = [&](const char* type, const char* status) {
    return signs.find(SignKind::kCondition, type, status) != SickSigns::kNone;
  };
  EXPECT_TRUE(bad("GpuMemWatch", "True"));
  EXPECT_FALSE(bad("GpuMemWatch", "False"));
  EXPECT_TRUE(bad("KernelReady", "False"));
  EXPECT_FALSE(bad("KernelReady", "True"));
  EXPECT_FALSE(bad("KernelReady", "Unknown"));
  EXPECT_FALSE(bad("Ready", "False"));
}

// The values are those of the documentation of Amazon and of Google.
TEST(SickSigns, a_preset_of_labels_and_taints_knows_the_values_that_are_bad) {
  constexpr const char* kHyperPod = "sagemaker.amazonaws.com/node-health-status";
  constexpr const char* kOngoing = "cloud.google.com/active-node-maintenance";
  constexpr const char* kScheduled = "cloud.google.com/scheduled-maintenance-time";
  constexpr const char* kTermination = "cloud.google.com/impending-node-termination";
  const struct {
    const char* preset;
    SignKind kind;
    const char* key;
    const char* value;
    bool bad;
  } table[] = {
      {"hyperpod", SignKind::kLabel, kHyperPod, "Schedulable", false},
      {"hyperpod", SignKind::kLabel, kHyperPod, "Unschedulable", true},
      {"hyperpod", SignKind::kLabel, kHyperPod, "UnschedulablePendingReboot", true},
      {"hyperpod", SignKind::kLabel, kHyperPod, "UnschedulablePendingReplacement", true},
      {"hyperpod", SignKind::kLabel, kHyperPod, "", false},
      {"gke", SignKind::kLabel, kOngoing, "ONGOING", true},
      {"gke", SignKind::kLabel, kOngoing, "PENDING", false},
      {"gke", SignKind::kTaint, kTermination, "", true},
      {"gke", SignKind::kLabel, kScheduled, "1733083200", false},  // it may be a week away
      {"gke-scheduled", SignKind::kLabel, kScheduled, "1733083200", true},
      {"gke-scheduled", SignKind::kLabel, kScheduled, "1733169600", true},
      {"gke-scheduled", SignKind::kTaint, kScheduled, "1733083200", false},
      {"gke-scheduled", SignKind::kLabel, kOngoing, "ONGOING", false},
      {"autoscalers", SignKind::kTaint, "karpenter.sh/disrupted", "", true},
      {"autoscalers", SignKind::kTaint, "aws-node-termination-handler/spot-itn", "1733083200", true},
      {"autoscalers", SignKind::kTaint, "ToBeDeletedByClusterAutoscaler", "1733083200", true},
  };
  for (const auto& row : table) {
    const auto signs = *SickSigns::of_flags({std::string("preset:") + row.preset});
    EXPECT_EQ(signs.find(row.kind, row.key, row.value) != SickSigns::kNone, row.bad)
        << row.preset << " " << row.key << "=" << row.value;
  }
}

TEST(SickSigns, a_sign_is_found_by_kind_key_and_value) {
  const auto signs = *SickSigns::of_flags({"taint:a", "label:a=x", "label:b=x", "label:b"});
  EXPECT_EQ(signs.find(SignKind::kTaint, "a", "anything"), 0u);
  EXPECT_EQ(signs.find(SignKind::kLabel, "a", "x"), 1u);
  EXPECT_EQ(signs.find(SignKind::kLabel, "a", "y"), SickSigns::kNone);
  EXPECT_EQ(signs.find(SignKind::kLabel, "b", "x"), 2u) << "the first of two";
  EXPECT_EQ(signs.find(SignKind::kLabel, "b", ""), 3u);
  EXPECT_EQ(signs.find(SignKind::kCondition, "a", "True"), SickSigns::kNone);
}

}  // namespace
}  // namespace lockstep::placement
