#include "operator/job/strategic_merge.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::job::strategic_merge_test {
namespace {

using Json = nlohmann::json;

Json merged(const char* original, const char* patch) {
  auto result = strategic_merge(Json::parse(original), Json::parse(patch), "patch");
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : Json();
}

std::string refusal(const char* original, const char* patch) {
  auto result = strategic_merge(Json::parse(original), Json::parse(patch), "patch");
  EXPECT_FALSE(result) << result->dump();
  return result ? "" : result.error().message;
}

TEST(StrategicMerge, maps_are_merged_and_null_removes) {
  EXPECT_EQ(merged(R"({"a": {"b": 1, "c": 2}, "d": 3})", R"({"a": {"b": null, "e": 4}, "x": null})"),
            Json::parse(R"({"a": {"c": 2, "e": 4}, "d": 3})"));
}

TEST(StrategicMerge, named_lists_are_merged_by_their_key) {
  EXPECT_EQ(merged(R"({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]})",
                   R"({"env": [{"name": "B", "value": "3"}]})"),
            Json::parse(R"({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]})"));
  EXPECT_EQ(merged(R"({"ports": [{"containerPort": 80, "name": "a"}]})",
                   R"({"ports": [{"containerPort": 80, "protocol": "UDP"}]})"),
            Json::parse(R"({"ports": [{"containerPort": 80, "name": "a", "protocol": "UDP"}]})"));
}

TEST(StrategicMerge, new_entries_come_before_those_that_the_patch_does_not_name) {
  EXPECT_EQ(merged(R"({"containers": [{"name": "trainer"}]})", R"({"containers": [{"name": "side"}]})"),
            Json::parse(R"({"containers": [{"name": "side"}, {"name": "trainer"}]})"));
}

TEST(StrategicMerge, other_lists_are_replaced) {
  EXPECT_EQ(merged(R"({"command": ["a", "b"], "tolerations": [{"key": "x"}]})",
                   R"({"command": ["c"], "tolerations": [{"key": "y"}]})"),
            Json::parse(R"({"command": ["c"], "tolerations": [{"key": "y"}]})"));
}

TEST(StrategicMerge, patch_delete_removes_a_list_entry_and_empties_a_map) {
  EXPECT_EQ(merged(R"({"env": [{"name": "A"}, {"name": "B"}], "affinity": {"x": 1}})",
                   R"({"env": [{"name": "A", "$patch": "delete"}], "affinity": {"$patch": "delete"}})"),
            Json::parse(R"({"env": [{"name": "B"}], "affinity": {}})"));
}

TEST(StrategicMerge, patch_replace_replaces_a_list_or_a_map) {
  EXPECT_EQ(merged(R"({"env": [{"name": "A"}, {"name": "B"}], "affinity": {"x": 1, "y": 2}})",
                   R"({"env": [{"$patch": "replace"}, {"name": "C"}], "affinity": {"$patch": "replace", "y": 3}})"),
            Json::parse(R"({"env": [{"name": "C"}], "affinity": {"y": 3}})"));
}

TEST(StrategicMerge, what_cannot_be_meant_is_refused_by_name) {
  EXPECT_EQ(refusal(R"({})", R"({"spec": {"$retainKeys": ["a"]}})"),
            "patch.spec.$retainKeys has nothing here to act upon");
  EXPECT_EQ(refusal(R"({"spec": {}})", R"({"spec": {"$retainKeys": ["a"]}})"),
            "patch.spec.$retainKeys is not supported; $patch with delete or replace is");
  EXPECT_EQ(refusal(R"({})", R"({"$setElementOrder/env": []})"),
            "patch.$setElementOrder/env is not supported; $patch with delete or replace is");
  EXPECT_EQ(refusal(R"({"a": {}})", R"({"a": {"$patch": "merge"}})"), "patch.a.$patch must be delete or replace");
  EXPECT_EQ(refusal(R"({})", R"({"a": {"$patch": "replace"}})"), "patch.a.$patch has nothing here to act upon");
  EXPECT_EQ(refusal(R"({"env": []})", R"({"env": [{"name": "A", "$patch": 1}]})"),
            "patch.env[0].$patch must be delete or replace");
  EXPECT_EQ(refusal(R"({})", R"({"env": [{"value": "1"}]})"),
            "patch.env[0] needs name, by which the entries of this list are merged");
  EXPECT_EQ(refusal(R"({})", R"({"env": ["A"]})"), "patch.env[0] must be an object");
  EXPECT_EQ(refusal(R"({"tolerations": [{"key": "x"}]})", R"({"tolerations": [{"$patch": "replace"}]})"),
            "patch.tolerations[0].$patch has nothing here to act upon");
}

TEST(StrategicMerge, a_patch_of_any_depth_ends_in_a_sentence) {
  Json deep = 1;
  for (int i = 0; i < 200; ++i) deep = Json{{"a", std::move(deep)}};
  const auto result = strategic_merge(Json::object(), deep, "patch");
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("is nested too deeply"), std::string::npos);
}

TEST(StrategicMerge, an_original_without_keys_does_no_harm) {
  EXPECT_EQ(merged(R"({"env": [1, {"value": "x"}]})", R"({"env": [{"name": "A"}]})"),
            Json::parse(R"({"env": [{"name": "A"}, 1, {"value": "x"}]})"));
}

}  // namespace
}  // namespace lockstep::job::strategic_merge_test
