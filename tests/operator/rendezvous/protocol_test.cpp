#include "operator/rendezvous/protocol.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/sanitizer.h"

namespace lockstep::rendezvous {
namespace {

AgentToCoordinator there_and_back(const AgentToCoordinator& message) {
  const std::string frame = *encode_frame(message);
  EXPECT_EQ(*decode_length(frame.substr(0, 4)), frame.size() - 4);
  return *decode_from_agent(std::string_view(frame).substr(4));
}
// The bytes that a connection of that protocol carries for one message.
std::string written(const CoordinatorToAgent& message, int protocol) {
  std::string bytes;
  const std::vector<Chunk> chunks = *CoordinatorWriter(protocol).encode(message);
  for (const Chunk& chunk : chunks) bytes += *chunk.bytes;
  return bytes;
}
// What an agent reads of them; messages only.
std::vector<CoordinatorToAgent> read(const std::string& bytes) {
  FrameReader frames;
  CoordinatorReader reader;
  frames.feed(bytes);
  std::vector<CoordinatorToAgent> messages;
  for (auto frame = frames.next(); *frame; frame = frames.next()) {
    if (const auto message = reader.decode(**frame); *message) messages.push_back(**message);
  }
  return messages;
}

Go full_go() {
  Go go;
  go.id = {2, 8};
  go.job = "a";
  go.job_uid = "uid";
  go.kind = Kind::kTorch;
  go.first_rank = 2;
  go.ranks = 2;
  go.world_size = 4;
  go.group_rank = 1;
  go.group_world_size = 2;
  go.peers = Peers({{0, 0, {"10.0.0.1:1", "10.0.0.1:2"}}, {1, 0, {"10.0.0.2:1", "10.0.0.2:2"}}});
  go.master_addr = "10.0.0.1";
  go.master_port = 20'001;
  go.key = std::string(64, 'a');
  go.restore = "step-1.g7";
  go.source = {2, {7, 42, "00fe"}, true};
  go.program.checkpoint_path = "/ckpt";
  go.program.checkpoint_every_seconds = 300;
  go.program.max_restarts = 10;
  go.program.env = {{"NCCL_DEBUG", "INFO"}};
  return go;
}

Exit full_exit() {
  Exit exit;
  exit.generation = 3;
  exit.rank = 5;
  exit.code = 137;
  exit.signal = 9;
  exit.end_ms = 1'700'000'000'123;
  exit.reason = Exit::Reason::kTerminated;
  exit.report = FailureReport{FailureReport::Class::kCommunication, 2, "rank 2 went away"};
  exit.stderr_tail = "a line\n\"quoted\"\n";
  exit.problem = api::Cause::kCommandNotFound;
  exit.message = "not there";
  return exit;
}

TEST(Protocol, every_message_of_an_agent_survives_the_wire) {
  Hello hello;
  hello.name_space = "ns";
  hello.pod_name = "a-1234-0-1";
  hello.pod_uid = "u";
  hello.slot = 3;
  hello.incarnation = 2;
  hello.token = "t";
  hello.session = "s";
  hello.phase = MemberPhase::kRunning;
  hello.generation = 7;
  hello.up = true;
  hello.regroups = true;
  hello.promised = {2, 8};
  hello.life = 4;
  Heartbeat heartbeat{
      .sequence = 9,
      .phase = MemberPhase::kWarm,
      .generation = 7,
      .up = true,
      .regroups = true,
      .progress =
          Progress{.step = 1, .total_steps = 2, .epoch = 3, .loss = 0.5, .samples_per_second = 6.25, .eta_seconds = 7},
      .newest_checkpoint = CheckpointReport{"step-1.g7", 1, 7, "ab"}};
  Heartbeat watched = heartbeat;
  watched.ranks = {{'T', 1250,
                    Activity{.generation = 7,
                             .doing = Activity::Doing::kForward,
                             .step = 41,
                             .beats = 9,
                             .sequence = 512,
                             .stage = Activity::Stage::kReduceScatter,
                             .sent = 5,
                             .received = 6,
                             .waits_for_bytes_of = 1,
                             .waits_for_room_at = 0,
                             .may_rest_ms = 7500}},
                   {'D', 0, std::nullopt}};
  Ready ready{.id = {2, 8},
              .addresses = {"10.0.0.1:1", "10.0.0.1:2"},
              .holdings = {},
              .host = "10.0.0.1",
              .master_port = 20'001,
              .life = 4,
              .problem = api::Cause::kPortInUse,
              .message = "taken"};
  Ready kept = ready;
  kept.holdings = {{7, 41, "00ff"}, {7, 42, "00fe"}};
  kept.identities = {{2, "gradients=fp32"}};
  Heartbeat identified = heartbeat;
  identified.identities = {{1, "gradients=fp32"}, {3, ""}};
  for (const AgentToCoordinator& message : std::vector<AgentToCoordinator>{
           hello, heartbeat, watched, identified, Heartbeat{}, ready, kept, Up{4}, Up{4, true},
           Broken{3, {7, 1, "rank 1 went away"}}, Broken{3, {7, -1, "others join", true}},
           Broken{3, {7, 1, "", false, true}}, Echoed{7, "10.0.0.1:1: no answer"}, full_exit()}) {
    EXPECT_EQ(there_and_back(message), message);
  }
}

TEST(Protocol, an_agent_never_names_a_cause_of_the_cluster) {
  for (const std::string word : {"MemberLost", "NodeLost", "Preempted", "Evicted", "PodDeleted", "ConnectionBroken",
                                 "Partitioned", "Stopped", "Completed", " ", "Anything else"}) {
    for (const std::string type : {"READY", "EXIT"}) {
      const auto read =
          decode_from_agent(fmt::format(R"({{"type":"{}","problem":"{}","message":"a sentence"}})", type, word));
      ASSERT_TRUE(read) << read.error().message;
      const auto [problem, message] = std::visit(
          [](const auto& m) -> std::pair<api::Cause, std::string> {
            if constexpr (requires { m.message; }) return {m.problem, m.message};
            return {};
          },
          *read);
      EXPECT_EQ(problem, api::Cause::kProcessFailed) << word;
      EXPECT_EQ(message, "the agent says \"" + word + "\": a sentence");
    }
  }
}

// What the agents of every version send and read.
TEST(Protocol, a_cause_travels_as_its_name) {
  Exit exit;
  exit.problem = api::Cause::kHang;
  exit.message = "no step";
  const std::string frame = *encode_frame(exit);
  EXPECT_NE(frame.find(R"("message":"no step","problem":"Hang")"), std::string::npos) << frame;
  exit.problem = api::Cause::kNone;
  EXPECT_EQ(encode_frame(exit)->find("problem"), std::string::npos);
}

// A process may say a line of 4 KiB, and a member may have 1,024 of them.
TEST(Protocol, a_ready_with_any_identities_fits_into_a_frame) {
  Ready ready;
  for (char c = 'a'; c <= 'z'; ++c) ready.identities.push_back({2, std::string(5000, c)});
  const auto read = std::get<Ready>(there_and_back(AgentToCoordinator(ready)));
  ASSERT_EQ(read.identities.size(), kMostIdentityRuns);
  EXPECT_EQ(read.identities[0], (IdentityRun{2, std::string(4096, 'a')}));
  EXPECT_EQ(read.identities.back().ranks, 2 * 26 - 2 * 15) << "the others count as one";
}

TEST(Protocol, more_identities_than_an_agent_sends_are_refused) {
  std::string runs = R"({"ranks":1,"line":"a"})";
  for (std::size_t i = 1; i <= kMostIdentityRuns; ++i) runs += R"(,{"ranks":1,"line":"a"})";
  const auto read = decode_from_agent(R"({"type":"HEARTBEAT","identities":[)" + runs + "]}");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "field identities must be a short array");
}

TEST(Protocol, every_message_of_the_coordinator_survives_the_wire) {
  const Go go = full_go();
  Go no_rank = go;
  no_rank.id.generation = 0;
  no_rank.peers = {};
  for (const CoordinatorToAgent& message : std::vector<CoordinatorToAgent>{
           Warm{no_rank}, Warm{no_rank, true}, Welcome{3}, Refused{"no", true}, Propose{{2, 8}, 2, 2, 4, 29'500}, go,
           Ack{8, 3}, Halt{{2, 7}}, Yield{{2, 7}}, Abort{7, 3, "it sleeps"}, Echo{7, go.peers}, Stop{60, 3}, Done{}}) {
    for (const int protocol : {1, 2}) {
      // Protocol 1 does not say whose the addresses of an ECHO are.
      if (protocol == 1 && std::holds_alternative<Echo>(message)) continue;
      EXPECT_EQ(read(written(message, protocol)), std::vector<CoordinatorToAgent>{message}) << protocol;
    }
  }
  const auto echo = read(written(Echo{7, go.peers}, 1));
  ASSERT_EQ(echo.size(), 1U);
  EXPECT_EQ(std::get<Echo>(echo[0]).peers->addresses(), go.peers->addresses());
}

// Word for word what the agents of protocol 1 have always been sent.
TEST(Protocol, protocol_1_is_written_byte_for_byte) {
  const std::string tail = R"("ranks":2,"restore":"step-1.g7","source":{"rank":2,"send":true,)"
                           R"("version":{"digest":"00fe","generation":7,"step":42}},)"
                           R"("term":2,"type":)";
  const auto head = [](int generation) {
    return R"({"checkpointEvery":300,"checkpointPath":"/ckpt","env":{"NCCL_DEBUG":"INFO"},"firstRank":2,)"
           R"("generation":)" +
           std::to_string(generation) + R"(,"groupRank":1,"groupWorldSize":2,"job":"a","jobUid":"uid","key":")" +
           std::string(64, 'a') + R"(","kind":"Torch","masterAddr":"10.0.0.1","masterPort":20001,"maxRestarts":10,)";
  };
  const std::string go = head(8) +
                         R"("members":[0,0,1,1],"peers":["10.0.0.1:1","10.0.0.1:2","10.0.0.2:1","10.0.0.2:2"],)" +
                         tail + R"("GO","worldSize":4})";
  EXPECT_EQ(written(full_go(), 1), *encode_length(go.size()) + go);
  Warm warm{full_go()};
  warm.go.id.generation = 0;
  const std::string warmed = head(0) + R"("members":[],"peers":[],)" + tail + R"("WARM","worldSize":4})";
  EXPECT_EQ(written(warm, 1), *encode_length(warmed.size()) + warmed);
  const std::string echo =
      R"({"addresses":["10.0.0.1:1","10.0.0.1:2","10.0.0.2:1","10.0.0.2:2"],"generation":7,"type":"ECHO"})";
  EXPECT_EQ(written(Echo{7, full_go().peers}, 1), *encode_length(echo.size()) + echo);
}

TEST(Protocol, heartbeats_of_large_jobs_are_rarer_and_those_of_old_agents_are_not) {
  using std::chrono::milliseconds;
  for (const std::size_t members : {1, 512, 4096}) EXPECT_EQ(heartbeat_every(1, members), kHeartbeatEvery);
  EXPECT_EQ(heartbeat_every(2, 512), kHeartbeatEvery);
  EXPECT_EQ(heartbeat_every(2, 1024), milliseconds(500));
  for (const std::size_t members : {2048, 4096, 16'384}) EXPECT_EQ(heartbeat_every(2, members), milliseconds(1000));
  EXPECT_EQ(std::get<Welcome>(**CoordinatorReader().decode(R"({"type":"WELCOME","term":3})")).heartbeat_ms, 250);
}

TEST(Protocol, a_member_is_not_warmed_for_a_generation) {
  Go go;
  go.id = {2, 7};
  EXPECT_FALSE(CoordinatorReader().decode(written(Warm{go}, 2).substr(4)).ok());
}

TEST(Protocol, unknown_fields_are_ignored_and_unknown_types_say_so) {
  EXPECT_EQ(*decode_from_agent(R"({"type":"UP","generation":4,"colour":"blue"})"), AgentToCoordinator(Up{4}));
  EXPECT_EQ(*decode_from_agent(R"({"type":"SING"})"), AgentToCoordinator(Unknown{}));
  EXPECT_EQ(**CoordinatorReader().decode(R"({"type":"SING"})"), CoordinatorToAgent(Unknown{}));
}

TEST(Protocol, what_is_not_a_message_is_refused_with_a_reason) {
  for (const char* bad : {"",
                          "{",
                          "[]",
                          "4",
                          "null",
                          "{}",
                          R"({"type":3})",
                          R"({"type":"UP","generation":"4"})",
                          R"({"type":"UP","generation":-1})",
                          R"({"type":"UP","generation":1e3})",
                          R"({"type":"UP","generation":99999999999999999999})",
                          R"({"type":"EXIT","code":256})",
                          R"({"type":"EXIT","reason":"boredom"})",
                          R"({"type":"READY","addresses":["a,b"]})",
                          R"({"type":"READY","addresses":["\u0001"]})",
                          R"({"type":"READY","addresses":["10.0.0.1:1\""]})",
                          R"({"type":"HEARTBEAT","ranks":{}})",
                          R"({"type":"HEARTBEAT","ranks":[[]]})",
                          R"({"type":"HEARTBEAT","ranks":["S"]})",
                          R"({"type":"HEARTBEAT","ranks":[["SS"]]})",
                          R"({"type":"HEARTBEAT","ranks":[["?",1]]})",
                          R"({"type":"HEARTBEAT","ranks":[["S",1,1,"asleep",1,1,1,"idle",1,1,-1,-1]]})",
                          R"({"type":"HEARTBEAT","ranks":[["S",1,1,"other",1,-1,1,"idle",1,1,-1,-1]]})",
                          R"({"type":"HEARTBEAT","ranks":[["S",1,1,"other",1,1,1,"idle",1,1,-2,-1]]})",
                          R"({"type":"HEARTBEAT","ranks":[["S",1,1,"other",1,1,1,"idle",1,1.5,-1,-1]]})",
                          R"({"type":"HEARTBEAT","ranks":[["S",1,1,"other",1,1,1,"idle",1,1]]})",
                          R"({"type":"READY","addresses":[1]})",
                          R"({"type":"HEARTBEAT","progress":[]})",
                          "{\"type\":\"UP\xff\"}"}) {
    const auto decoded = decode_from_agent(bad);
    ASSERT_FALSE(decoded) << bad;
    EXPECT_EQ(decoded.error().code, ErrorCode::kInvalid) << bad;
    EXPECT_FALSE(decoded.error().message.empty());
  }
}

TEST(Protocol, holdings_are_one_for_each_address) {
  const auto decoded = decode_from_agent(
      R"({"type":"READY","term":1,"generation":2,"addresses":["10.0.0.1:1"],"holdings":[{"step":1},{"step":1}]})");
  ASSERT_FALSE(decoded.ok());
  EXPECT_NE(decoded.error().message.find("holdings"), std::string::npos);
}

TEST(Protocol, activities_of_the_most_processes_fit_a_frame_and_one_more_is_refused) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 2;
  Heartbeat heartbeat;
  heartbeat.progress = Progress{.step = kMost,
                                .total_steps = kMost,
                                .epoch = kMost,
                                .loss = 1.0 / 3,
                                .samples_per_second = 1.0 / 3,
                                .eta_seconds = 1.0 / 3};
  const Activity largest{.generation = kMost,
                         .doing = Activity::Doing::kCommitting,
                         .step = kMost,
                         .beats = kMost,
                         .sequence = kMost,
                         .stage = Activity::Stage::kReduceScatter,
                         .sent = kMost,
                         .received = kMost,
                         .waits_for_bytes_of = 1'000'000,
                         .waits_for_room_at = 1'000'000,
                         .may_rest_ms = kMostRestMs};
  heartbeat.ranks.assign(kMaxRanksPerMember, {'T', kMost, largest});
  EXPECT_EQ(there_and_back(AgentToCoordinator(heartbeat)), AgentToCoordinator(heartbeat));
  heartbeat.ranks.assign(kMaxRanksPerMember + 1, {'T', 0, std::nullopt});
  const auto frame = encode_frame(AgentToCoordinator(heartbeat));
  ASSERT_TRUE(frame);
  EXPECT_FALSE(decode_from_agent(std::string_view(*frame).substr(4)));
}

TEST(Protocol, what_a_later_version_appends_to_an_activity_is_ignored) {
  const auto decoded =
      decode_from_agent(R"({"type":"HEARTBEAT","ranks":[["S",1,1,"other",1,1,1,"idle",1,1,-1,-1,0,"more",4]]})");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(std::get<Heartbeat>(*decoded).ranks.at(0).said->received, 1);
}

TEST(Protocol, an_activity_of_the_baseline_does_not_say_how_long_it_may_rest) {
  const auto activity = [](const std::string& more) {
    auto decoded =
        decode_from_agent(R"({"type":"HEARTBEAT","ranks":[["S",1,1,"saving",1,1,1,"idle",1,1,-1,-1)" + more + "]]}");
    return decoded ? std::get<Heartbeat>(*decoded).ranks.at(0).said : std::nullopt;
  };
  ASSERT_TRUE(activity(""));
  EXPECT_EQ(activity("")->may_rest_ms, -1);
  ASSERT_TRUE(activity(",150000"));
  EXPECT_EQ(activity(",150000")->may_rest_ms, 150'000);
  EXPECT_FALSE(activity("," + std::to_string(kMostRestMs + 1)));
}

TEST(Protocol, a_frame_is_at_most_256_KiB_in_both_directions) {
  Go go;
  go.key = std::string(kMaxFrame, 'x');
  for (const int protocol : {1, 2}) {
    EXPECT_EQ(CoordinatorWriter(protocol).encode(go).error().code, ErrorCode::kExhausted);
  }
  EXPECT_EQ(*decode_length(std::string("\x00\x04\x00\x00", 4)), kMaxFrame);
  EXPECT_FALSE(decode_length(std::string("\x00\x04\x00\x01", 4)));
  EXPECT_FALSE(decode_length(std::string("\xff\xff\xff\xff", 4)));
  EXPECT_FALSE(decode_length(std::string("\x00\x00\x00\x00", 4)));
}

TEST(Protocol, bytes_that_are_not_text_do_not_stop_an_exit) {
  Exit exit = full_exit();
  exit.stderr_tail = "\xff\xfe binary";
  const auto back = there_and_back(AgentToCoordinator(exit));
  EXPECT_NE(std::get<Exit>(back).stderr_tail.find("binary"), std::string::npos);
}

TEST(Protocol, a_stream_gives_the_same_frames_however_it_is_cut) {
  std::string stream;
  for (int i = 0; i < 50; ++i) stream += *encode_frame(AgentToCoordinator(Up{i}));
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  FrameReader reader;
  std::int64_t next = 0;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t length =
        std::min<std::size_t>(std::uniform_int_distribution<std::size_t>(1, 70)(random), stream.size() - at);
    reader.feed(std::string_view(stream).substr(at, length));
    at += length;
    for (auto frame = reader.next(); *frame; frame = reader.next()) {
      EXPECT_EQ(*decode_from_agent(**frame), AgentToCoordinator(Up{next++})) << "seed " << seed;
    }
  }
  EXPECT_EQ(next, 50) << "seed " << seed;
}

TEST(Protocol, random_bytes_never_decode_into_anything_harmful) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  Heartbeat watched;
  watched.ranks = {{'S', 17,
                    Activity{.generation = 3,
                             .doing = Activity::Doing::kWaiting,
                             .step = 41,
                             .beats = 9,
                             .sequence = 512,
                             .stage = Activity::Stage::kExchange,
                             .sent = 5,
                             .received = 6,
                             .waits_for_bytes_of = 1,
                             .waits_for_room_at = 0}}};
  const std::string goods[] = {encode_frame(AgentToCoordinator(full_exit()))->substr(4),
                               encode_frame(AgentToCoordinator(watched))->substr(4)};
  for (int i = 0; i < sanitizer::cases(20'000); ++i) {
    std::string text = goods[i % 2];
    for (int k = std::uniform_int_distribution<int>(1, 4)(random); k > 0; --k) {
      const std::size_t at = std::uniform_int_distribution<std::size_t>(0, text.size() - 1)(random);
      if (random() % 3 == 0) {
        text.erase(at, random() % 8);
        if (text.empty()) text = "x";
      } else {
        text[at] = static_cast<char>(random());
      }
    }
    const auto decoded = decode_from_agent(text);
    if (!decoded) {
      EXPECT_EQ(decoded.error().code, ErrorCode::kInvalid) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace lockstep::rendezvous
