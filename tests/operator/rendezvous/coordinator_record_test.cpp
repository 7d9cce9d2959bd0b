// The formats of the record: in which order it lists members, and what becomes of one that a later version wrote.
#include "tests/operator/rendezvous/coordinator_elastic_fixture.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CoordinatorRecordTest : public CoordinatorElasticTest {
 protected:
  // Generation 4 of the three slots, of the leader before.
  void take_over(int format, std::vector<Record::Member> members) {
    stored.record.format = format;
    stored.record.term = 1;
    stored.record.generation = 4;
    stored.record.members = std::move(members);
    stored.version = "7";
    another_leads();
  }
  // Rank `rank` of generation 4 runs in that slot, and its process is killed.
  int slot_blamed_for(int rank, int slot) {
    for (const int each : {0, 1, 2}) {
      Hello message = hello(each);
      message.phase = MemberPhase::kRunning;
      message.generation = 4;
      message.up = true;
      message.promised = {1, 4};
      job->on_hello(kFirst + static_cast<SessionId>(each), message, now());
    }
    say(slot, exit(rank, 4, 137, 9));
    const auto view = job->view();
    return view && view->failure ? view->failure->slot : -1;
  }
};

TEST_F(CoordinatorRecordTest, lists_members_in_order_of_rank) {
  run_three();
  EXPECT_EQ(stored.record.format, 3);
  ASSERT_EQ(stored.record.members.size(), 3U);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(stored.record.members[static_cast<std::size_t>(rank)].slot, rank);
}

TEST_F(CoordinatorRecordTest, of_the_second_format_gives_ranks_in_the_order_of_its_members) {
  take_over(2, {{2, 1, 1}, {0, 1, 1}, {1, 1, 1}});
  EXPECT_EQ(slot_blamed_for(0, 2), 2);
}

TEST_F(CoordinatorRecordTest, of_the_third_format_gives_ranks_in_the_order_of_its_members) {
  take_over(3, {{2, 1, 1}, {0, 1, 1}, {1, 1, 1}});
  EXPECT_EQ(slot_blamed_for(0, 2), 2);
}

TEST_F(CoordinatorRecordTest, of_the_first_format_gives_ranks_in_the_order_of_slots) {
  take_over(1, {{2, 1, 1}, {0, 1, 1}, {1, 1, 1}});
  EXPECT_EQ(slot_blamed_for(0, 0), 0);
  EXPECT_EQ(stored.record.format, 3) << "the new leader wrote its term";
}

TEST_F(CoordinatorRecordTest, of_a_later_format_is_re_formed_and_never_adopted) {
  take_over(4, {});
  join(0);
  join(1);
  time += seconds(20);
  for (const int slot : {0, 1}) say(slot, Heartbeat{});
  EXPECT_TRUE(sent<Propose>().empty()) << "slot 2 may be of its generation, and nobody is left out";
  EXPECT_EQ(phase(), Phase::kWaiting);
  Hello message = hello(2);
  message.phase = MemberPhase::kRunning;
  message.generation = 4;
  message.promised = {1, 4};
  job->on_hello(kFirst + 2, message, now());
  EXPECT_TRUE(sent<Halt>().empty()) << "its processes keep their state";
  const auto proposals = sent<Propose>();
  ASSERT_EQ(proposals.size(), 3U);
  EXPECT_EQ(proposals[0].id.generation, 5);
}

TEST_F(CoordinatorRecordTest, a_job_that_a_later_version_finished_is_finished) {
  stored.record.finished = true;
  take_over(4, {});
  EXPECT_EQ(phase(), Phase::kFinished);
}

}  // namespace
}  // namespace lockstep::rendezvous
