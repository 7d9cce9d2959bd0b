#include "operator/base/json_paths.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/random_json.h"
#include "tests/sanitizer.h"

namespace lockstep {
namespace {

using nlohmann::json;

TEST(JsonPaths, keep_what_lies_on_one_and_nothing_else) {
  const JsonPaths paths{{"a"}, {"b|c"}, {"b|d|[]|e"}, {"f|*|g"}};
  const struct {
    const char *text, *kept;
  } rows[] = {
      {"{}", "{}"},
      {R"( {"a" : 1 ,"x":2} )", R"({"a":1})"},
      {R"({"a":{"x":[1, 2]},"b":3})", R"({"a":{"x":[1, 2]},"b":3})"},
      {R"({"b":{"x":"}","c":"}\"","y":{}},"z":[]})", R"({"b":{"c":"}\""}})"},
      {R"({"b":{"d":[{"e":1,"x":2},3,{"x":4},{"e":5}]}})", R"({"b":{"d":[{"e":1},3,{},{"e":5}]}})"},
      {R"({"b":[{"c":1}],"f":{"1":{"g":2,"x":3},"4":5}})", R"({"b":[],"f":{"1":{"g":2},"4":5}})"},
      {R"({"\u0061":1,"x":2})", R"({"\u0061":1})"},
      {R"({"a":1,"a":2})", R"({"a":1,"a":2})"},
      {R"({"x":nonsense,"a":7})", R"({"a":7})"},
      {"7", "7"},
      {"7 8", "7 8"},
      {"[1,2]", "[]"},
  };
  for (const auto& row : rows) EXPECT_EQ(keep_paths(row.text, paths), row.kept) << row.text;
}

TEST(JsonPaths, keep_nothing_of_a_text_that_is_not_one_value) {
  const JsonPaths paths{{"a|b"}};
  for (const char* text : {"", " ", "{", R"({"a")", R"({"a":{"b":1})", R"({"a":{"b":1}}})", R"({"a":{"b":1]})",
                           R"({"x":"})", R"({"a":1,})", "[1"}) {
    EXPECT_EQ(keep_paths(text, paths), "") << text;
  }
}

TEST(JsonPaths, of_a_deep_text_do_not_recurse) {
  const std::string deep = std::string(1U << 20U, '[') + std::string(1U << 20U, ']');
  EXPECT_EQ(keep_paths("{\"a\":" + deep + ",\"x\":" + deep + "}", JsonPaths{{"a"}}), "{\"a\":" + deep + "}");
}

// What keep_paths() should leave of a value at `place`.
json kept_of(const json& value, const JsonPaths& paths, int place) {
  if (paths.last(place) || !value.is_structured()) return value;
  json kept = value.is_object() ? json::object() : json::array();
  for (const auto& [key, inner] : value.items()) {
    const int next = paths.next(place, value.is_object() ? key : "[]");
    if (next < 0) continue;
    if (value.is_object()) {
      kept[key] = kept_of(inner, paths, next);
    } else {
      kept.push_back(kept_of(inner, paths, next));
    }
  }
  return kept;
}

TEST(JsonPaths, keep_the_same_as_a_parser_that_leaves_the_rest_out) {
  const JsonPaths paths{{"a"}, {"b|a"}, {"b|b|[]|c"}, {"c|[]|a"}, {"c|[]|b|*"}, {"d\"|*|a"}};
  std::mt19937_64 random(20261128);
  const std::vector<std::string> keys{"a", "b", "c", "d\"", "[]", "x\\"};
  for (int i = 0; i < sanitizer::cases(20'000); ++i) {
    const json value = random_json(random, 6, keys);
    for (const int indent : {-1, 2}) {
      const std::string kept = keep_paths(value.dump(indent), paths);
      ASSERT_EQ(json::parse(kept, nullptr, false), kept_of(value, paths, 0)) << value << "\n" << kept;
    }
  }
}

}  // namespace
}  // namespace lockstep
