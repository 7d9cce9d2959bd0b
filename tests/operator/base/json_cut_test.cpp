#include "operator/base/json_cut.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "tests/random_json.h"
#include "tests/sanitizer.h"

namespace lockstep {
namespace {

using Parts = std::vector<std::string>;

// The members as "key=value", then "!" when the text is no whole object.
Parts members(std::string_view text) {
  Parts parts;
  const bool whole = each_member(text, [&](std::string_view key, std::string_view value) {
    parts.push_back(std::string(key) + "=" + std::string(value));
    return true;
  });
  if (!whole) parts.push_back("!");
  return parts;
}

TEST(JsonCut, cuts_objects_into_members) {
  EXPECT_EQ(members("{}"), Parts{});
  EXPECT_EQ(members(" { } "), Parts{});
  EXPECT_EQ(members(R"({"a":1})"), Parts{"a=1"});
  EXPECT_EQ(members(R"( {"a" : -1.5e3 , "b":"x\"}" ,"c":[{"d":"]"}],"e":{},"f":null} )"),
            (Parts{"a=-1.5e3", R"(b="x\"}")", R"(c=[{"d":"]"}])", "e={}", "f=null"}));
}

TEST(JsonCut, tells_when_a_text_is_no_whole_object) {
  for (const char* text :
       {"", " ", "[]", "1", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":[}", "{\"a\":\"", "{\"a\":\"\\", "{a:1}",
        "{\"a\" 1}", "{\"a\":}", "{\"a\":1,}", "{\"a\":1 \"b\":2}", "{} x", "{\"a\":1}}"}) {
    const Parts parts = members(text);
    ASSERT_FALSE(parts.empty()) << text;
    EXPECT_EQ(parts.back(), "!") << text;
  }
}

TEST(JsonCut, stops_where_it_is_told) {
  int seen = 0;
  EXPECT_TRUE(each_element("[1,2,broken", [&](std::string_view) { return ++seen < 2; }));
  EXPECT_EQ(seen, 2);
}

TEST(JsonCut, reads_one_value_by_its_path) {
  const std::string_view text = R"({"spec":{"name":"no"},"metadata":{"labels":{"name":"no"},"name":"a\u002fb"}})";
  EXPECT_EQ(cut_at(text, {"metadata", "name"}), R"("a\u002fb")");
  EXPECT_EQ(characters_of(cut_at(text, {"metadata", "name"})), "a/b");
  EXPECT_EQ(cut_at(text, {"metadata", "uid"}), "");
  EXPECT_EQ(cut_at(text, {"metadata", "name", "x"}), "");
  EXPECT_EQ(cut_at("garbage", {"metadata"}), "");
  EXPECT_EQ(characters_of("12"), "");
  EXPECT_EQ(characters_of("\""), "");
  EXPECT_EQ(characters_of("\"\\\""), "");
}

TEST(JsonCut, of_a_deep_text_does_not_recurse) {
  const std::string deep = "{\"a\":" + std::string(1U << 20U, '[') + std::string(1U << 20U, ']') + "}";
  EXPECT_EQ(members(deep).size(), 1U);
  EXPECT_EQ(members(deep.substr(0, deep.size() - 2)), Parts{"!"});
}

TEST(JsonCut, of_valid_json_agrees_with_the_parser) {
  std::mt19937_64 random(20261124);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  const std::vector<std::string> keys{"k0", "k1", "k2", "k3", "k4"};
  for (int i = 0; i < sanitizer::cases(2000); ++i) {
    auto object = nlohmann::json::object();
    for (int k = below(5); k > 0; --k) object["k" + std::to_string(k)] = random_json(random, 4, keys);
    const std::string text = object.dump(below(3) - 1);
    auto back = nlohmann::json::object();
    ASSERT_TRUE(each_member(text, [&](std::string_view key, std::string_view value) {
      back[std::string(key)] = nlohmann::json::parse(value);
      return true;
    })) << text;
    ASSERT_EQ(back, object) << text;
  }
}

}  // namespace
}  // namespace lockstep
