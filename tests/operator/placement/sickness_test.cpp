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
      {"preset:azure", "there is no preset \"azure\"; there are nvsentinel, eks, aks, gke, autoscalers"},
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
