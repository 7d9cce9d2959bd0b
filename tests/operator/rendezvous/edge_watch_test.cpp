#include "operator/rendezvous/edge_watch.h"

#include <gtest/gtest.h>

namespace lockstep::rendezvous {
namespace {

using Report = EdgeWatch::Report;

Place slot(int number, std::int64_t incarnation = 1) {
  return {number, incarnation};
}
Report lost(int from, int to) {
  return {slot(from), slot(to)};
}
const std::set<Place> kFour = {slot(0), slot(1), slot(2), slot(3)};

struct TwoFailures {
  const char* what;
  std::vector<Report> first, second;
  std::optional<int> evicted;
};

TEST(EdgeWatch, table) {
  const TwoFailures cases[] = {
      {"nobody accuses anybody", {}, {}, {}},
      {"only that they could not go on", {{slot(0), {}}}, {{slot(0), {}}}, {}},
      {"another link the second time", {lost(0, 1)}, {lost(2, 3)}, {}},
      {"both ends say so: the higher slot", {lost(0, 1), lost(1, 0)}, {lost(0, 1), lost(1, 0)}, 1},
      {"the same link, said from its other end", {lost(0, 1), lost(1, 0)}, {lost(1, 0), lost(0, 1)}, 1},
      {"who says nothing of it", {lost(1, 0)}, {lost(1, 0)}, 0},
      {"who says that it could not go on is not silent", {lost(1, 0)}, {lost(1, 0), {slot(0), {}}}, 1},
      {"who is at the end of two bad links",
       {lost(0, 1), lost(1, 0), lost(2, 1), lost(1, 2)},
       {lost(0, 1), lost(1, 0), lost(2, 1), lost(1, 2)},
       1},
      {"a link that failed for the first time does not count",
       {lost(2, 3), lost(3, 2)},
       {lost(0, 1), lost(1, 0), lost(1, 2), lost(2, 1), lost(2, 3), lost(3, 2)},
       3},
      {"a pod with itself", {lost(2, 2)}, {lost(2, 2)}, {}},
      {"one that is not of the gang", {lost(0, 9), lost(9, 0)}, {lost(0, 9), lost(9, 0)}, {}},
  };
  for (const TwoFailures& each : cases) {
    EdgeWatch watch;
    EXPECT_FALSE(watch.failed(each.first, true, kFour)) << each.what << ": at once";
    const auto eviction = watch.failed(each.second, false, kFour);
    EXPECT_EQ(eviction ? std::optional(eviction->member.slot) : std::nullopt, each.evicted) << each.what;
  }
}

TEST(EdgeWatch, of_two_the_newest_incarnation_goes) {
  EdgeWatch watch;
  const std::set<Place> gang = {slot(0, 2), slot(1, 1)};
  const std::vector<Report> both = {{slot(0, 2), slot(1, 1)}, {slot(1, 1), slot(0, 2)}};
  watch.failed(both, false, gang);
  const auto eviction = watch.failed(both, false, gang);
  ASSERT_TRUE(eviction);
  EXPECT_EQ(eviction->member, slot(0, 2));
  EXPECT_EQ(eviction->other, slot(1, 1));
}

TEST(EdgeWatch, a_step_makes_all_links_good_again) {
  EdgeWatch watch;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(watch.failed({lost(0, 1)}, true, kFour));
  EXPECT_TRUE(watch.failed({lost(0, 1)}, false, kFour));
}

TEST(EdgeWatch, a_link_that_was_not_tried_in_between_is_remembered) {
  EdgeWatch watch;
  watch.failed({lost(0, 1)}, false, kFour);
  EXPECT_FALSE(watch.failed({lost(2, 3)}, false, kFour));
  EXPECT_TRUE(watch.failed({lost(0, 1)}, false, kFour));
}

TEST(EdgeWatch, another_pod_of_the_slot_has_other_links) {
  EdgeWatch watch;
  watch.failed({lost(0, 1)}, false, kFour);
  const std::set<Place> gang = {slot(0), slot(1, 2)};
  EXPECT_FALSE(watch.failed({{slot(0), slot(1, 2)}}, false, gang));
  EXPECT_EQ(watch.failures().size(), 1U) << "of pods that are gone nothing is kept";
}

}  // namespace
}  // namespace lockstep::rendezvous
