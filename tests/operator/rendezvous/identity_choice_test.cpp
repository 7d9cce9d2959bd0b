#include "operator/rendezvous/identity_choice.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace lockstep::rendezvous {
namespace {

struct IdentityCase {
  const char* what;
  std::vector<std::vector<IdentityRun>> members;  // slot i has the i-th
  std::optional<IdentityDifference> difference;
};

std::optional<IdentityDifference> difference_of(const std::vector<std::vector<IdentityRun>>& runs) {
  std::vector<MemberIdentity> members;
  for (std::size_t i = 0; i < runs.size(); ++i) members.push_back({static_cast<int>(i), &runs[i]});
  return identity_difference(members);
}

TEST(IdentityChoice, table) {
  const std::string a = "gradients=fp32 numerics=avx2", b = "gradients=fp32 numerics=avx512";
  const IdentityCase cases[] = {
      {"nobody says anything", {{}, {}}, {}},
      {"all say the same", {{{1, a}}, {{1, a}}}, {}},
      {"one says nothing", {{{1, a}}, {}, {{1, a}}}, {}},
      {"a process of a pod says nothing", {{{1, a}, {1, ""}}, {{2, a}}}, {}},
      {"of two the second differs", {{{1, a}}, {{1, b}}}, {{"numerics", 1, "avx512", 0, "avx2"}}},
      {"the one that differs from most", {{{1, b}}, {{1, a}}, {{1, a}}}, {{"numerics", 0, "avx512", 1, "avx2"}}},
      {"ranks count, not pods", {{{1, a}}, {{1, a}}, {{4, b}}}, {{"numerics", 0, "avx2", 2, "avx512"}}},
      {"two processes of one pod", {{{1, a}, {1, b}}}, {{"numerics", 0, "avx512", 0, "avx2"}}},
      {"the first field by name", {{{1, "a=1 b=1"}}, {{1, "a=2 b=2"}}}, {{"a", 1, "2", 0, "1"}}},
      {"a field that explains others", {{{1, "a=1 model=x"}}, {{1, "a=2 model=y"}}}, {{"model", 1, "y", 0, "x"}}},
      {"a field that one program does not know", {{{1, "a=1 b=1"}}, {{1, "b=1"}}}, {}},
      {"beside one that differs", {{{1, "a=1 b=1"}}, {{1, "b=2"}}}, {{"b", 1, "2", 0, "1"}}},
      {"an empty value is a value", {{{1, "a="}}, {{1, "a=1"}}}, {{"a", 1, "1", 0, ""}}},
      {"what is no field is left out", {{{1, "hello =x a=1"}}, {{1, "world =y a=1"}}}, {}},
  };
  for (const IdentityCase& each : cases) EXPECT_EQ(difference_of(each.members), each.difference) << each.what;
}

TEST(IdentityChoice, a_long_line_is_compared_up_to_its_32nd_field) {
  std::string line;
  for (int i = 10; i < 42; ++i) line += fmt::format("f{}=1 ", i);
  EXPECT_EQ(difference_of({{{1, line + "z=1"}}, {{1, line + "z=2"}}}), std::nullopt);
  EXPECT_EQ(difference_of({{{1, "z=1 " + line}}, {{1, "z=2 " + line}}})->field, "z");
}

TEST(IdentityChoice, a_difference_of_machines_says_what_to_do) {
  EXPECT_NE(identity_advice("numerics").find("--deterministic"), std::string::npos);
  EXPECT_NE(identity_advice("gpu").find("one type of GPU"), std::string::npos);
  EXPECT_EQ(identity_advice("gradients"), "");
}

}  // namespace
}  // namespace lockstep::rendezvous
