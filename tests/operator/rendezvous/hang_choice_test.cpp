#include "operator/rendezvous/hang_choice.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tests/sanitizer.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::seconds;
using Doing = Activity::Doing;
using Stage = Activity::Stage;

// Ranks of a ring in collective 7 of step 42, each of which waits for bytes of the one before it. `stuck` is not in it.
std::vector<WatchedRank> ring(int size, int stuck) {
  std::vector<WatchedRank> ranks;
  for (int rank = 0; rank < size; ++rank) {
    Activity said{.generation = 1,
                  .doing = Doing::kWaiting,
                  .step = 41,
                  .beats = 100,
                  .sequence = 7,
                  .stage = Stage::kReduceScatter,
                  .sent = 1000,
                  .received = 1000,
                  .waits_for_bytes_of = (rank + size - 1) % size,
                  .waits_for_room_at = -1};
    if (rank == stuck) {
      said = {.generation = 1,
              .doing = Doing::kForward,
              .step = 41,
              .beats = 99,
              .sequence = 6,
              .stage = Stage::kIdle,
              .sent = 1000,
              .received = 1000,
              .waits_for_bytes_of = -1,
              .waits_for_room_at = -1};
    }
    ranks.push_back({rank, rank / 2, "n" + std::to_string(rank / 2), {'S', 100, said}, seconds(12)});
  }
  return ranks;
}

std::vector<int> culprits_of(const std::vector<WatchedRank>& ranks) {
  std::vector<int> found;
  for (const auto& culprit : choose_hang(ranks).culprits) found.push_back(culprit.rank);
  return found;
}

TEST(HangChoice, the_table) {
  struct Row {
    const char* what;
    std::function<void(std::vector<WatchedRank>&)>
        change;  // of a ring of four in which rank 2 is not in the collective
    std::vector<int> culprits;
  };
  const auto is = [](int rank, char state) {
    return [=](std::vector<WatchedRank>& ranks) { ranks[static_cast<std::size_t>(rank)].activity.state = state; };
  };
  const std::vector<Row> rows = {
      {"computes for ever", is(2, 'R'), {2}},
      {"sleeps while the others are a collective further", [](auto&) {}, {2}},
      {"waits for a disk", is(2, 'D'), {2}},
      {"is stopped where it computes", is(2, 'T'), {2}},
      {"is stopped by a debugger", is(2, 't'), {2}},
      {"another is stopped as well", is(0, 'T'), {0}},
      {"is stopped inside the collective, waiting for its own neighbour",
       [](auto& ranks) {
         ranks[2].activity = {'T', 11'900, ring(4, -1)[2].activity.said};
       },
       {2}},
      {"two are stopped", [&](auto& ranks) { is(1, 'T')(ranks), is(2, 'T')(ranks); }, {1, 2}},
      {"says nothing any more, inside the collective",
       [](auto& ranks) {
         ranks[2].activity = {'S', 11'900, ring(4, -1)[2].activity.said};
       },
       {2}},
      {"its neighbour waits for room as well", [](auto& ranks) { ranks[1].activity.said->waits_for_room_at = 2; }, {2}},
      {"two of them are not in the collective: the one that is waited for",
       [](auto& ranks) { ranks[1].activity.said = ranks[2].activity.said; },
       {2}},
      {"nobody is in a collective",
       [](auto& ranks) {
         for (auto& rank : ranks) rank.activity.said = ring(4, 2)[2].activity.said;
       },
       {0, 1, 2, 3}},
      {"a rank that nobody waits for computes too",
       [](auto& ranks) {
         ranks[3].activity.said->waits_for_bytes_of = 2;
         ranks[0].activity.said = ranks[2].activity.said;  // nobody waits for rank 0 but rank 1
         ranks[1].activity.said->waits_for_bytes_of = 2;
       },
       {2}},
      {"ranks that left are waited for by nobody in the list",
       [](auto& ranks) {
         ranks.erase(ranks.begin() + 3);
         ranks[0].activity.said->waits_for_bytes_of = 2;
       },
       {2}},
      {"all wait in a circle and no byte is missing: the one that is furthest behind",
       [](auto& ranks) {
         ranks = ring(4, -1);
         ranks[3].activity.said->sequence = 6;
       },
       {3}},
      {"it names itself and ranks that do not exist",
       [](auto& ranks) {
         ranks[2].activity.said->waits_for_bytes_of = 2;
         ranks[2].activity.said->waits_for_room_at = 4000;
       },
       {2}},
      {"programs that say nothing: the stopped one",
       [&](auto& ranks) {
         for (auto& rank : ranks) rank.activity = {'S', 0, std::nullopt};
         is(3, 'T')(ranks);
       },
       {3}},
      {"programs that say nothing: the one that waits for a disk",
       [&](auto& ranks) {
         for (auto& rank : ranks) rank.activity = {'S', 0, std::nullopt};
         is(3, 'D')(ranks);
       },
       {3}},
      {"programs that say nothing: the first stands for all",
       [](auto& ranks) {
         for (auto& rank : ranks) rank.activity = {'S', 0, std::nullopt};
       },
       {0}},
  };
  for (const Row& row : rows) {
    std::vector<WatchedRank> ranks = ring(4, 2);
    row.change(ranks);
    EXPECT_EQ(culprits_of(ranks), row.culprits) << row.what;
    EXPECT_FALSE(choose_hang(ranks).link) << row.what;
  }
}

TEST(HangChoice, a_world_of_one_is_its_own_culprit) {
  const WatchedRank alone{
      0,
      0,
      "",
      {'R', 10, Activity{.generation = 1, .doing = Doing::kLoading, .step = 3, .beats = 9, .sequence = 12}},
      seconds(11)};
  WatchedRank reads{0, 0, "", {'D', 10, Activity{1, Doing::kStarting}}, seconds(11)};
  reads.activity.said->may_rest_ms = 0;
  EXPECT_NE(choose_hang({reads}).culprits.at(0).sentence.find("reading a checkpoint"), std::string::npos);
  EXPECT_EQ(
      choose_hang({alone}).culprits.at(0).sentence,
      "rank 0 (slot 0) has not moved for 11.0 s: it runs (state R) loading data for step 4, with no collective under "
      "way since number 12");
}

TEST(HangChoice, bytes_that_do_not_arrive_accuse_a_link_and_nobody) {
  std::vector<WatchedRank> ranks = ring(3, -1);
  ranks[1].activity.said->sent = 1500;  // rank 2 has received 1000
  const HangChoice choice = choose_hang(ranks);
  EXPECT_TRUE(choice.culprits.empty());
  ASSERT_TRUE(choice.link);
  EXPECT_EQ(choice.link->from, 1);
  EXPECT_EQ(choice.link->to, 2);
  EXPECT_EQ(choice.link->sentence,
            "500 bytes that rank 1 (slot 0) sent in collective 7 have not reached rank 2 (slot 1) for 12.0 s, and all "
            "ranks wait");
}

TEST(HangChoice, the_sentence_says_where_it_is_what_its_process_does_and_who_waits) {
  std::vector<WatchedRank> ranks = ring(4, 2);
  ranks[2].activity = {'T', 11'900,
                       Activity{.generation = 1,
                                .doing = Doing::kBackward,
                                .step = 41,
                                .beats = 99,
                                .sequence = 7,
                                .stage = Stage::kAllGather,
                                .sent = 1,
                                .received = 1,
                                .waits_for_bytes_of = 1,
                                .waits_for_room_at = -1}};
  EXPECT_EQ(
      choose_hang(ranks).culprits.at(0).sentence,
      "rank 2 (slot 1, node n1) has not moved for 12.0 s: it is stopped (state T), last seen inside the all-gather of "
      "collective 7, in the backward pass of step 42; ranks 0, 1, 3 wait for it");
  ranks[0].activity.state = 'T';
  const HangChoice both = choose_hang(ranks);
  EXPECT_NE(both.culprits.at(1).sentence.find("; ranks 1, 3 wait for it; rank 0 too"), std::string::npos)
      << both.culprits.at(1).sentence;
}

// Whatever ranks say, somebody or a link is named, and only what is there.
TEST(HangChoice, of_anything_that_ranks_may_say_there_is_a_choice) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  for (int i = 0; i < sanitizer::cases(20'000); ++i) {
    std::vector<WatchedRank> ranks;
    for (int rank = up_to(2); rank < 6; rank += 1 + up_to(1)) {
      WatchedRank made{rank, rank, "", {"RSDTtZ?"[up_to(6)], up_to(4000), std::nullopt}, seconds(up_to(20))};
      if (up_to(20) > 0) {
        made.activity.said = Activity{.generation = 1,
                                      .doing = static_cast<Doing>(up_to(8)),
                                      .step = up_to(3),
                                      .beats = up_to(3),
                                      .sequence = up_to(3),
                                      .stage = static_cast<Stage>(up_to(4)),
                                      .sent = up_to(3),
                                      .received = up_to(3),
                                      .waits_for_bytes_of = up_to(7) - 1,
                                      .waits_for_room_at = up_to(7) - 1};
      }
      ranks.push_back(made);
    }
    const HangChoice choice = choose_hang(ranks);
    const auto there = [&](int wanted) {
      return std::any_of(ranks.begin(), ranks.end(), [&](const auto& rank) { return rank.rank == wanted; });
    };
    ASSERT_NE(choice.culprits.empty(), !choice.link) << "seed " << seed;
    for (const auto& culprit : choice.culprits) ASSERT_TRUE(there(culprit.rank)) << "seed " << seed;
    if (choice.link) {
      ASSERT_TRUE(there(choice.link->from) && there(choice.link->to)) << "seed " << seed;
    }
  }
}

// For rings of all sizes, each rank as the stuck one, and every place where the others came to rest.
TEST(HangChoice, the_stuck_rank_of_any_ring_is_named) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int i = 0; i < 1000; ++i) {
    const int size = 2 + static_cast<int>(random() % 40);
    const int stuck = static_cast<int>(random() % static_cast<unsigned>(size));
    std::vector<WatchedRank> ranks = ring(size, stuck);
    for (auto& rank : ranks) {
      const bool full = random() % 2 == 0 && rank.rank != stuck;  // its neighbour's buffers are
      if (full) rank.activity.said->waits_for_room_at = (rank.rank + 1) % size;
    }
    // Where the one after it has its bytes, it waits with the others for those before.
    for (int rank = 0; rank < size; ++rank) {
      auto& said = *ranks[static_cast<std::size_t>(rank)].activity.said;
      if ((rank + 1) % size != stuck) said.waits_for_room_at = -1;
    }
    ASSERT_EQ(culprits_of(ranks), std::vector<int>{stuck}) << "seed " << seed << ", " << size << " ranks";
  }
}

}  // namespace
}  // namespace lockstep::rendezvous
