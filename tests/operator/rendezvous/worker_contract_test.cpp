#include "operator/rendezvous/worker_contract.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/sanitizer.h"

namespace lockstep::rendezvous {
namespace {

WorkerMessage there_and_back(const WorkerMessage& message) {
  const std::string line = encode(message);
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line, and its newline is the last character";
  EXPECT_LE(line.size(), kMaxLinkLine);
  auto decoded = decode_worker_message(std::string_view(line).substr(0, line.size() - 1));
  EXPECT_TRUE(decoded.ok()) << decoded.error().message;
  return decoded.value_or(WorkerMessage());
}

TEST(WorkerContract, every_message_comes_back_as_it_was) {
  const WorkerMessage up{.up = true};
  EXPECT_EQ(there_and_back(up), up);
  const WorkerMessage progress{.progress = Progress{.step = 120,
                                                    .total_steps = 1000,
                                                    .epoch = 2,
                                                    .loss = 1.25,
                                                    .samples_per_second = 310.5,
                                                    .eta_seconds = 42.0}};
  EXPECT_EQ(there_and_back(progress), progress);
  const WorkerMessage checkpoint{.checkpoint = CheckpointReport{"step-120.g3", 120, 3, "abc0"}};
  EXPECT_EQ(there_and_back(checkpoint), checkpoint);
  const WorkerMessage failure{
      .failure = FailureReport{FailureReport::Class::kCommunication, 3, "lost rank 3:\n\"quoted\" \xc3\xa9"}};
  EXPECT_EQ(there_and_back(failure), failure);
  const WorkerMessage stays{.up = true, .regroups = true, .entry = {.init_ms = 12, .transfer_ms = 0}};
  EXPECT_EQ(there_and_back(stays), stays);
  const WorkerMessage broken{.broken = BrokenReport{3, 1, "rank 1 went away", true}};
  EXPECT_EQ(there_and_back(broken), broken);
  const WorkerMessage activity{.activity = Activity{.generation = 3,
                                                    .doing = Activity::Doing::kBackward,
                                                    .step = 41,
                                                    .beats = 9,
                                                    .sequence = 512,
                                                    .stage = Activity::Stage::kAllGather,
                                                    .sent = 1 << 20,
                                                    .received = 7,
                                                    .waits_for_bytes_of = 1,
                                                    .waits_for_room_at = -1,
                                                    .may_rest_ms = 60'000}};
  EXPECT_EQ(there_and_back(activity), activity);
  const WorkerMessage identity{.activity = Activity{}, .identity = "gradients=fp32 numerics=cpu/avx2"};
  EXPECT_EQ(there_and_back(identity), identity);
  const WorkerMessage holding{.holding = Holding{2, 4, {3, 120, "00ff"}}};
  EXPECT_EQ(there_and_back(holding), holding);
}

TEST(WorkerContract, an_identity_line_is_sorted_and_has_one_blank_between_fields) {
  EXPECT_EQ(identity_line({{"numerics", "a b"}, {"gradients", "fp32"}}), "gradients=fp32 numerics=a_b");
  EXPECT_EQ(identity_line({}), "");
}

// An agent that does not know the line reads what is around it.
TEST(WorkerContract, an_identity_travels_in_an_activity) {
  const std::string line = encode(WorkerMessage{.identity = "a=1"});
  EXPECT_EQ(line.rfind("{\"activity\":{\"identity\":\"a=1\",\"now\":[", 0), 0U) << line;
}

TEST(WorkerContract, a_long_identity_line_is_cut) {
  const WorkerMessage identity{.identity = std::string(10'000, 'x')};
  EXPECT_EQ(there_and_back(identity).identity, std::string(4096, 'x'));
}

Result<AgentMessage> of_agent(const AgentMessage& message) {
  const std::string line = encode(message);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  return decode_agent_message(std::string_view(line).substr(0, line.size() - 1));
}

AgentMessage full_join() {
  AgentMessage message;
  message.kind = AgentMessage::Kind::kJoin;
  message.join = {.term = 2,
                  .generation = 4,
                  .rank = 1,
                  .world_size = 2,
                  .peers = {"10.0.0.1:1", "10.0.0.2:1"},
                  .member_of_rank = {0, 1},
                  .key = std::string(64, 'a'),
                  .source = {0, {3, 120, "00ff"}, true},
                  .restore = "step-100.g3"};
  return message;
}

TEST(WorkerContract, every_message_of_an_agent_comes_back_as_it_was) {
  AgentMessage regroup;
  regroup.kind = AgentMessage::Kind::kRegroup;
  regroup.regroup = {2, 4};
  AgentMessage yield;
  yield.kind = AgentMessage::Kind::kYield;
  yield.yields = 4;
  for (const AgentMessage& message : {AgentMessage{}, regroup, full_join(), yield}) {
    EXPECT_EQ(of_agent(message).value(), message);
  }
}

TEST(WorkerContract, a_version_that_cannot_be_is_refused) {
  for (const StateVersion& version :
       {StateVersion{-1, 120, "00ff"}, StateVersion{3, -1, "00ff"}, StateVersion{3, 120, "00112233445566778"}}) {
    const std::string line = encode(WorkerMessage{.holding = Holding{2, 4, version}});
    EXPECT_FALSE(decode_worker_message(std::string_view(line).substr(0, line.size() - 1)).ok());
  }
}

TEST(WorkerContract, a_join_of_six_thousand_ranks_fits_a_line) {
  AgentMessage message = full_join();
  message.join.world_size = 6000;
  message.join.peers.assign(6000, "10.100.100.100:65535");
  message.join.member_of_rank.assign(6000, 1000);
  EXPECT_EQ(of_agent(message).value(), message);
}

TEST(WorkerContract, a_join_that_contradicts_itself_is_refused) {
  AgentMessage no_such_rank = full_join(), too_few_peers = full_join(), no_such_source = full_join();
  no_such_rank.join.rank = 2;
  too_few_peers.join.peers.pop_back();
  no_such_source.join.source.rank = 2;
  for (const AgentMessage& message : {no_such_rank, too_few_peers, no_such_source}) {
    EXPECT_FALSE(of_agent(message).ok());
  }
}

TEST(WorkerContract, a_loss_that_is_no_number_survives) {
  for (const double loss : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const auto back = there_and_back({.progress = Progress{.step = 7, .loss = loss}});
    ASSERT_TRUE(back.progress.has_value());
    EXPECT_TRUE(std::isnan(back.progress->loss));
    EXPECT_EQ(back.progress->step, 7);
  }
}

TEST(WorkerContract, a_message_of_any_length_and_bytes_fits_a_line) {
  const std::string garbage(1'000'000, '\xff');
  const auto back = there_and_back({.failure = FailureReport{FailureReport::Class::kOwn, -1, garbage}});
  ASSERT_TRUE(back.failure.has_value());
  EXPECT_FALSE(back.failure->message.empty());
}

TEST(WorkerContract, fields_that_are_not_known_are_ignored) {
  const auto message = decode_worker_message(R"({"up":{"since":1},"later":true})");
  ASSERT_TRUE(message.ok());
  EXPECT_TRUE(message->up);
}

TEST(WorkerContract, whatever_is_not_exactly_one_message_is_refused) {
  for (const char* line : {
           "",
           "x",
           "[]",
           "null",
           "{}",
           "{\"other\":{}}",
           "{\"up\":true}",
           "{\"up\":{},\"progress\":{}}",
           "{\"progress\":{\"step\":\"1\"}}",
           "{\"progress\":{\"step\":18446744073709551615}}",
           "{\"progress\":{\"step\":1.5}}",
           "{\"checkpoint\":{\"name\":\"../x\"}}",
           "{\"checkpoint\":{}}",
           "{\"failure\":{\"class\":\"both\"}}",
           "{\"failure\":{\"class\":\"own\",\"suspectRank\":-2}}",
           "{\"failure\":{\"class\":\"own\",\"suspectRank\":99999999999}}",
           "{\"up\":{}} x",
       }) {
    const auto message = decode_worker_message(line);
    ASSERT_FALSE(message.ok()) << line;
    EXPECT_EQ(message.error().code, ErrorCode::kInvalid) << line;
  }
  EXPECT_FALSE(decode_worker_message(std::string(kMaxLinkLine + 1, ' ')).ok());
  EXPECT_FALSE(decode_agent_message("{\"up\":{}}").ok());
  EXPECT_FALSE(decode_agent_message("stop").ok());
}

TEST(WorkerContract, a_field_out_of_range_is_named) {
  const auto message = decode_worker_message(R"({"progress":{"step":7,"totalSteps":-1}})");
  ASSERT_FALSE(message.ok());
  EXPECT_NE(message.error().message.find("\"totalSteps\""), std::string::npos) << message.error().message;
}

TEST(WorkerContract, deep_nesting_and_random_bytes_are_survived) {
  EXPECT_FALSE(decode_worker_message(std::string(60'000, '[')).ok());
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string whole = encode(WorkerMessage{.progress = Progress{.step = 120,
                                                                      .total_steps = 1000,
                                                                      .epoch = 2,
                                                                      .loss = 1.25,
                                                                      .samples_per_second = 310.5,
                                                                      .eta_seconds = 42.0}});
  for (int i = 0; i < sanitizer::cases(5000); ++i) {
    std::string line = whole.substr(0, whole.size() - 1);
    for (int changes = static_cast<int>(random() % 4); changes >= 0; --changes) {
      line[random() % line.size()] = static_cast<char>(random());
    }
    const auto message = decode_worker_message(line);
    EXPECT_TRUE(!message.ok() || message->progress || message->up || message->checkpoint || message->failure);
  }
}

}  // namespace
}  // namespace lockstep::rendezvous
