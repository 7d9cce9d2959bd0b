// Objects in protobuf as JSON: what crosses, what is left out, and bytes that are no object.
#include "operator/kube/wire_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/kube/wire_messages.h"
#include "tests/operator/kube/wire_encoder.h"

namespace lockstep::kube {
namespace {

using testing::bytes_field;
using testing::encoded;
using testing::enveloped;
using testing::varint_field;

const WireMessage& pod_message() {
  return *message_of(kPods);
}

// The JSON of a pod's bytes.
std::optional<nlohmann::json> read(const std::string& bytes, const JsonPaths* fields = nullptr) {
  const auto text = wire_text(enveloped(bytes), pod_message(), fields);
  if (!text) return std::nullopt;
  return nlohmann::json::parse(*text);
}

const nlohmann::json kPod = nlohmann::json::parse(R"({
  "metadata": {"name": "a", "uid": "u", "generation": 3, "creationTimestamp": "2026-11-28T12:00:00Z",
    "labels": {"x": "1", "y": ""}, "ownerReferences": [{"uid": "w", "controller": true}, {"uid": "v"}]},
  "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}, "ports": [{"hostPort": 80}, {}]}],
    "priority": -5, "hostNetwork": true, "affinity": {"nodeAffinity": {}}},
  "status": {"phase": "Running", "containerStatuses": [{"name": "c", "state": {"running": {}}}]}})");

TEST(WireText, an_object_crosses_whole) {
  EXPECT_EQ(read(encoded(kPod, pod_message())), kPod);
}

TEST(WireText, what_nobody_reads_is_left_out) {
  const JsonPaths fields{
      {"metadata|labels|x"}, {"spec|containers|[]|name"}, {"spec|containers|[]|resources|requests|*"}, {"status"}};
  const auto kept = read(encoded(kPod, pod_message()), &fields);
  EXPECT_EQ(kept, (nlohmann::json{
                      {"metadata", {{"labels", {{"x", "1"}}}}},
                      {"spec", {{"containers", {{{"name", "c"}, {"resources", {{"requests", {{"cpu", "100m"}}}}}}}}}},
                      {"status", kPod["status"]}}));
}

TEST(WireText, a_path_that_leads_past_an_array_keeps_none_of_its_elements) {
  const JsonPaths fields{{"spec|containers|name"}};
  EXPECT_EQ(read(encoded(kPod, pod_message()), &fields), nlohmann::json::parse(R"({"spec":{"containers":[]}})"));
}

TEST(WireText, empty_values_are_left_out_as_in_json) {
  const std::string meta = bytes_field(1, "") + varint_field(7, 0) + bytes_field(8, "");
  const std::string spec = varint_field(11, 0) + bytes_field(40, "");
  EXPECT_EQ(read(bytes_field(1, meta) + bytes_field(2, spec)),
            nlohmann::json::parse(R"({"metadata":{},"spec":{"resources":{}}})"));
}

TEST(WireText, values_count_in_any_order_and_the_last_of_two) {
  const std::string c = bytes_field(2, bytes_field(1, "c")), d = bytes_field(2, bytes_field(1, "d"));
  const std::string spec = c + bytes_field(10, "n1") + d + bytes_field(10, "n2");
  EXPECT_EQ(read(bytes_field(2, spec)),
            nlohmann::json::parse(R"({"spec":{"containers":[{"name":"c"},{"name":"d"}],"nodeName":"n2"}})"));
}

TEST(WireText, any_characters_become_a_json_text) {
  const auto text_of = [](std::string_view name) {
    return (*read(bytes_field(1, bytes_field(1, name))))["metadata"]["name"].get<std::string>();
  };
  EXPECT_EQ(text_of("a\"b\\c\n\x7f"), "a\"b\\c\n\x7f");
  EXPECT_EQ(text_of("z\xc3\xbcrich"), "z\xc3\xbcrich");
  EXPECT_EQ(text_of("\xff"), "\xef\xbf\xbd") << "no UTF-8";
}

TEST(WireText, a_time_beyond_what_can_be_told_is_left_out) {
  for (const std::int64_t seconds : {INT64_MIN, INT64_MAX, std::int64_t{-62135596800}}) {
    const std::string time = varint_field(1, static_cast<std::uint64_t>(seconds));
    EXPECT_EQ(read(bytes_field(1, bytes_field(8, time))), (nlohmann::json{{"metadata", nlohmann::json::object()}}));
  }
}

TEST(WireText, fields_that_no_table_has_are_skipped) {
  const std::string unknown = bytes_field(900, "x") + varint_field(901, 7) + testing::varint(902U << 3U | 5U) + "1234";
  EXPECT_EQ(read(unknown + bytes_field(1, unknown + bytes_field(1, "a"))),
            (nlohmann::json{{"metadata", {{"name", "a"}}}}));
}

TEST(WireText, bytes_that_are_no_object_have_no_text) {
  EXPECT_FALSE(wire_text("{}", pod_message()));
  EXPECT_FALSE(wire_text(std::string("k8s\0\xff", 5), pod_message()));
  EXPECT_FALSE(read(varint_field(1, 5))) << "a number where an object belongs";
  EXPECT_FALSE(read(bytes_field(1, bytes_field(7, "5")))) << "a text where a number belongs";
  EXPECT_FALSE(read(bytes_field(1, bytes_field(11, "\x0a\x05")))) << "a label that ends early";
  const std::string whole = encoded(kPod["metadata"], *pod_message().fields[0].message);
  int refused = 0;
  for (std::size_t size = 1; size < whole.size(); ++size) {
    refused += read(bytes_field(1, whole.substr(0, size))) ? 0 : 1;
  }
  EXPECT_GT(refused, static_cast<int>(whole.size() / 2)) << "a cut between two fields leaves an object";
}

TEST(WireText, a_list_has_its_version_and_its_items) {
  const std::string metadata = bytes_field(2, "7") + bytes_field(3, "more");
  const std::string list = bytes_field(1, metadata) + bytes_field(2, bytes_field(1, bytes_field(1, "a"))) +
                           bytes_field(2, bytes_field(1, bytes_field(1, "b")));
  std::vector<std::string> items;
  const auto add = [&](std::string_view item) { items.emplace_back(item); };
  EXPECT_EQ(wire_list(enveloped(list), pod_message(), nullptr, add), R"({"resourceVersion":"7","continue":"more"})");
  EXPECT_EQ(items, (std::vector<std::string>{R"({"metadata":{"name":"a"}})", R"({"metadata":{"name":"b"}})"}));
  EXPECT_TRUE(wire_list(enveloped(list + varint_field(9, 1)), pod_message(), nullptr, add)) << "an unknown field";
  EXPECT_FALSE(wire_list(enveloped(list + bytes_field(2, "\x0a\x09")), pod_message(), nullptr, add));
  EXPECT_FALSE(wire_list(enveloped(list + varint_field(2, 1)), pod_message(), nullptr, add));
  EXPECT_FALSE(wire_list(list, pod_message(), nullptr, add));
}

}  // namespace
}  // namespace lockstep::kube
