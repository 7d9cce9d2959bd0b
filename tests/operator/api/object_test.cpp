#include "operator/api/object.h"

#include <gtest/gtest.h>

#include "operator/base/timestamp.h"

namespace lockstep::api::object_test {
namespace {

WallTime at(int seconds) {
  return WallTime(std::chrono::seconds(1'700'000'000 + seconds));
}

TEST(ObjectMeta, is_read_from_an_object_of_the_server) {
  const auto meta = parse_meta(Json::parse(R"({"metadata": {
    "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "12", "generation": 3,
    "labels": {"x": "1"}, "annotations": {"y": "2"}, "creationTimestamp": "2026-11-20T12:34:56Z",
    "deletionTimestamp": null,
    "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "other"},
                        {"apiVersion": "v1", "kind": "K", "name": "p", "uid": "boss", "controller": true}]}})"));
  ASSERT_TRUE(meta) << meta.error().message;
  EXPECT_EQ(meta->key().text(), "ns/a");
  EXPECT_EQ(meta->resource_version, "12");
  EXPECT_EQ(meta->generation, 3);
  EXPECT_EQ(meta->label("x"), "1");
  EXPECT_EQ(meta->label("absent"), "");
  EXPECT_EQ(meta->annotations.at("y"), "2");
  EXPECT_EQ(meta->controller_uid(), "boss");
  EXPECT_EQ(format_timestamp(*meta->created), "2026-11-20T12:34:56Z");
  EXPECT_FALSE(meta->deleted);
}

TEST(ObjectMeta, a_missing_field_keeps_its_default) {
  const auto meta = parse_meta(Json::object());
  ASSERT_TRUE(meta);
  EXPECT_EQ(meta->name, "");
  EXPECT_EQ(meta->controller_uid(), "");
}

TEST(ObjectMeta, a_wrong_type_names_the_field) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"metadata": 1})", "metadata must be an object"},
      {R"({"metadata": {"name": 1}})", "metadata.name must be a string"},
      {R"({"metadata": {"labels": []}})", "metadata.labels must be an object of strings"},
      {R"({"metadata": {"labels": {"a": 1}}})", "metadata.labels.a must be a string"},
      {R"({"metadata": {"generation": "1"}})", "metadata.generation must be an integer"},
      {R"({"metadata": {"generation": 1.5}})", "metadata.generation must be an integer"},
      {R"({"metadata": {"generation": 18446744073709551615}})",
       "metadata.generation must be an integer between -9223372036854775808 and 9223372036854775807"},
      {R"({"metadata": {"creationTimestamp": "yesterday"}})", "metadata.creationTimestamp must be an RFC 3339 time"},
      {R"({"metadata": {"ownerReferences": {}}})", "metadata.ownerReferences must be a list of objects"},
      {R"({"metadata": {"ownerReferences": [1]}})", "metadata.ownerReferences[0] must be an object"},
      {R"([])", "the object must be an object"},
  };
  for (const auto& [text, message] : cases) {
    const auto meta = parse_meta(Json::parse(text));
    ASSERT_FALSE(meta) << text;
    EXPECT_EQ(meta.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(meta.error().message, message);
  }
}

TEST(Condition, survives_the_way_to_json_and_back) {
  const Condition condition{"Running", "True", "GangUp", "all up", 4, at(5)};
  const auto back = parse_condition(to_json(condition));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, condition);
}

TEST(Condition, keeps_its_transition_time_until_the_status_flips) {
  std::vector<Condition> conditions;
  set_condition(conditions, {"Running", "False", "Starting", ""}, at(0));
  set_condition(conditions, {"Running", "False", "Waiting", "for two pods"}, at(1));
  ASSERT_EQ(conditions.size(), 1u);
  EXPECT_EQ(conditions[0].reason, "Waiting");
  EXPECT_EQ(conditions[0].last_transition, at(0));
  set_condition(conditions, {"Running", "True", "Up", ""}, at(2));
  EXPECT_EQ(conditions[0].last_transition, at(2));
  EXPECT_TRUE(is_true(conditions, "Running"));
  EXPECT_FALSE(is_true(conditions, "Failed"));
  EXPECT_EQ(find_condition(conditions, "Failed"), nullptr);
}

TEST(ResourceVersion, is_ordered_by_length_and_then_by_digits) {
  EXPECT_EQ(*compare_resource_versions("9", "10"), std::strong_ordering::less);
  EXPECT_EQ(*compare_resource_versions("21", "12"), std::strong_ordering::greater);
  EXPECT_EQ(*compare_resource_versions("184467440737095516160", "184467440737095516160"), std::strong_ordering::equal);
  EXPECT_EQ(*compare_resource_versions("0", "1"), std::strong_ordering::less);
}

TEST(ResourceVersion, that_is_no_decimal_number_is_refused) {
  for (const char* bad : {"", "01", "-1", "1a", "1.0", " 1"}) {
    EXPECT_FALSE(compare_resource_versions(bad, "1")) << bad;
    EXPECT_FALSE(compare_resource_versions("1", bad)) << bad;
  }
}

}  // namespace
}  // namespace lockstep::api::object_test
