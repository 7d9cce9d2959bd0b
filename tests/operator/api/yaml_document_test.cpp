#include "operator/api/yaml_document.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lockstep::api::yaml_document_test {
namespace {

using Json = nlohmann::json;

Json json_of(std::string_view text) {
  auto document = parse_yaml(text);
  EXPECT_TRUE(document) << document.error().message;
  return document ? document->json : Json();
}

std::string refusal(std::string_view text, const YamlLimits& limits = {}) {
  Position at;
  auto document = parse_yaml(text, &at, limits);
  EXPECT_FALSE(document) << text.substr(0, 100);
  return document ? "" : fmt::format("{}:{}: {}", at.line, at.column, document.error().message);
}

TEST(Yaml, scalars_mean_what_they_mean_to_kubectl) {
  EXPECT_EQ(
      json_of(R"([yes, No, on, y, true, ~, null, "", "yes", 'no', 12, -3, +4, 0x1F, 0o17, 017, 0b11, 1_000, 3.0, 1.5,
                       1e3, .5, 2026-11-20, 1.2.3, 12Gi, -, "12", !!str 12, .inf, 08, 18446744073709551615, 99999999999999999999])"),
      Json::parse(
          R"([true, false, true, true, true, null, null, "", "yes", "no", 12, -3, 4, 31, 15, 15, 3, 1000, 3, 1.5,
                       1000, 0.5, "2026-11-20", "1.2.3", "12Gi", "-", "12", "12", ".inf", 8, 18446744073709551615, 1e20])"));
}

TEST(Yaml, maps_lists_aliases_and_merge_keys) {
  EXPECT_EQ(json_of("a: &x {b: 1, c: 2}\nd: *x\ne:\n  <<: *x\n  c: 3\nf: [*x, {<<: [{b: 7}, *x]}]\n1: one\n"),
            Json::parse(R"({"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 2}, "e": {"b": 1, "c": 3},
                            "f": [{"b": 1, "c": 2}, {"b": 7, "c": 2}], "1": "one"})"));
  EXPECT_EQ(json_of(""), Json());
  EXPECT_EQ(json_of("---\na: |\n  two\n  lines\n---\n"), Json::parse(R"({"a": "two\nlines\n"})"));
}

TEST(Yaml, everything_knows_its_place) {
  const auto document =
      parse_yaml("spec:\n  nodes: 2\n  env:\n  - name: A\n    value: x\n  limits:\n    nvidia.com/gpu: 1\n");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->position_of(""), (Position{1, 1}));
  EXPECT_EQ(document->position_of("spec"), (Position{1, 1}));
  EXPECT_EQ(document->position_of("spec.nodes"), (Position{2, 3}));
  EXPECT_EQ(document->position_of("spec.env[0]"), (Position{4, 5}));
  EXPECT_EQ(document->position_of("spec.env[0].value"), (Position{5, 5}));
  EXPECT_EQ(document->position_of("spec.limits[nvidia.com/gpu]"), (Position{7, 5}));
  EXPECT_EQ(document->position_of("spec.image"), (Position{1, 1})) << "what is not there is where it would be";
  EXPECT_EQ(document->position_of("spec.nodesX"), (Position{1, 1}));
}

TEST(Yaml, mistakes_have_their_line_and_column) {
  EXPECT_EQ(refusal("a: 1\nb: 2\na: 3\n"), "3:1: the key a is given twice");
  EXPECT_EQ(refusal("a: 1\n---\nb: 2\n"), "3:1: a second document begins here; one file holds one");
  EXPECT_EQ(refusal("a: !secret x\n"), "1:4: the tag !secret is not supported here");
  EXPECT_EQ(refusal("[a]: 1\n"), "1:1: a key must be a plain text");
  EXPECT_EQ(refusal("a: &x [*x]\n"), "1:8: this alias stands inside what it refers to");
  EXPECT_EQ(refusal("a: {<<: 1}\n"), "1:5: << needs a map, or a list of maps");
  EXPECT_EQ(refusal("a: 1\nb: \xff\n"), "2:1: this line is not UTF-8 text");
  EXPECT_EQ(refusal("a: \xed\xa0\x80\n"), "1:1: this line is not UTF-8 text");
  EXPECT_EQ(refusal("a:\n\tb: 1\n"), "2:3: this line begins with a tab; YAML needs blanks there");
  EXPECT_EQ(refusal("a: [1\n"), "2:1: this is not YAML: end of sequence flow not found");
}

TEST(Yaml, a_document_cannot_grow_without_bound) {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    laughs += fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  }
  EXPECT_NE(refusal(laughs).find("the document has more than 100000 values"), std::string::npos);
  EXPECT_NE(refusal(std::string(200, '[') + std::string(200, ']')).find("more than 64 levels are nested"),
            std::string::npos);
  EXPECT_FALSE(refusal(std::string(100'000, '[')).empty());
  EXPECT_NE(refusal(std::string(2 << 20, 'x')).find("the file has 2097152 bytes, more than 1048576"),
            std::string::npos);
  EXPECT_NE(refusal("? " + std::string(2000, 'k') + "\n: 1\n").find("a key is longer than 1024 bytes"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::api::yaml_document_test
