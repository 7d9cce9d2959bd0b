#include "operator/placement/profile.h"

#include <gtest/gtest.h>

namespace lockstep::placement {
namespace {

struct Bad {
  Profile profile;
  std::string message;
};

TEST(Profile, every_fault_has_one_sentence) {
  Profile deep{"deep", {}};
  for (int i = 0; i <= kMostLevels; ++i)
    deep.levels.push_back({"l" + std::to_string(i), "example.com/" + std::to_string(i)});
  const Bad table[] = {
      {{"", {{"rack", "example.com/rack"}}}, "topology profile: the name is empty"},
      {{"p", {{"", "example.com/rack"}}}, "topology profile \"p\": levels[0]: the name is empty"},
      {{"p", {{"node", "example.com/node"}}},
       "topology profile \"p\": levels[0]: the name \"node\" belongs to the node itself"},
      {{"p", {{"rack", ""}}}, "topology profile \"p\": levels[0]: the label is empty"},
      {{"p", {{"rack", "a"}, {"row", "b"}, {"rack", "c"}}},
       "topology profile \"p\": levels[2] repeats the name \"rack\" of levels[0]"},
      {{"p", {{"row", "a"}, {"rack", "a"}}}, "topology profile \"p\": levels[1] repeats the label \"a\" of levels[0]"},
      {deep, "topology profile \"deep\": has 9 levels, at most 8 are supported"},
  };
  for (const Bad& bad : table) {
    const Status status = check(bad.profile);
    ASSERT_FALSE(status.ok()) << bad.message;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(status.error().message, bad.message);
  }
}

TEST(Profile, a_flat_cluster_is_a_profile) {
  EXPECT_TRUE(check({"flat", {}}).ok());
  EXPECT_TRUE(check({"two", {{"block", "example.com/block"}, {"rack", "example.com/rack"}}}).ok());
}

TEST(Profile, a_level_is_found_by_its_name_or_the_names_are_listed) {
  const Profile profile{"two", {{"block", "example.com/block"}, {"rack", "example.com/rack"}}};
  EXPECT_EQ(level_index(profile, "rack").value(), 1);
  EXPECT_EQ(level_index(profile, "row").error().message,
            "topology profile \"two\" has no level \"row\"; it has: block, rack");
  EXPECT_EQ(level_index({"flat", {}}, "row").error().message,
            "topology profile \"flat\" has no level \"row\"; it has: none");
}

}  // namespace
}  // namespace lockstep::placement
