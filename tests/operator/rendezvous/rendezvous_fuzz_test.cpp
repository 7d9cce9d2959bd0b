// The fuzz target on small random changes of messages of every kind.
#include <gtest/gtest.h>

#include "operator/rendezvous/protocol.h"
#include "operator/rendezvous/worker_contract.h"
#include "tests/fuzz/on_small_changes.h"

extern "C" int rendezvous_fuzz(const std::uint8_t* data, std::size_t size);

namespace lockstep::rendezvous {
namespace {

// The text of each message, and all of them as a stream of frames.
std::vector<std::string> seeds() {
  const Activity activity{.generation = 3,
                          .doing = Activity::Doing::kBackward,
                          .step = 41,
                          .beats = 9,
                          .sequence = 512,
                          .stage = Activity::Stage::kAllGather,
                          .sent = 1 << 20,
                          .received = 7,
                          .waits_for_bytes_of = 1,
                          .waits_for_room_at = -1,
                          .may_rest_ms = 6};
  Heartbeat heartbeat{
      .sequence = 9,
      .phase = MemberPhase::kWarm,
      .generation = 7,
      .up = true,
      .regroups = true,
      .progress =
          Progress{.step = 1, .total_steps = 2, .epoch = 3, .loss = 0.5, .samples_per_second = 6.25, .eta_seconds = 7},
      .newest_checkpoint = CheckpointReport{"step-1.g7", 1, 7, "ab"}};
  heartbeat.ranks = {{'S', 17, activity}, {'D', 0, std::nullopt}};
  heartbeat.identities = {{1, "gradients=fp32"}, {3, ""}};
  Ready ready{.id = {2, 8},
              .addresses = {"10.0.0.1:1"},
              .holdings = {},
              .host = "10.0.0.1",
              .master_port = 20'001,
              .life = 4,
              .problem = api::Cause::kPortInUse,
              .message = "taken"};
  ready.holdings = {{7, 41, "00ff"}, {7, 42, "00fe"}};
  Exit exit;
  exit.report = FailureReport{FailureReport::Class::kCommunication, 2, "rank 2 went away"};
  exit.stderr_tail = "a line\n\"quoted\"\n";
  Go go;
  go.id = {2, 8};
  go.peers = Peers({{0, 0, {"10.0.0.1:1", "10.0.0.1:2"}}, {1, 0, {"10.0.0.2:1"}}});
  go.source = {2, {7, 42, "00fe"}, true};
  go.program.env = {{"NCCL_DEBUG", "INFO"}};

  std::vector<std::string> texts;
  std::string stream;
  for (const AgentToCoordinator& message : std::vector<AgentToCoordinator>{
           Hello{}, heartbeat, ready, Up{4, true}, Broken{3, {7, 1, "rank 1 went away"}}, Echoed{7, "no"}, exit}) {
    stream += encode_frame(message).value();
    texts.push_back(encode_frame(message)->substr(4));
  }
  CoordinatorWriter writer(2);
  for (const CoordinatorToAgent& message :
       std::vector<CoordinatorToAgent>{Propose{}, go, Echo{7, go.peers}, Abort{3, 1, "hangs"}, Stop{}, Done{}}) {
    const auto chunks = writer.encode(message);
    for (const Chunk& chunk : *chunks) {
      stream += *chunk.bytes;
      texts.push_back(chunk.bytes->substr(4));
    }
  }
  for (const std::string& line :
       {encode(WorkerMessage{.activity = activity, .identity = "a=1"}),
        encode(WorkerMessage{.broken = BrokenReport{3, 1, "rank 1 went away", true}}),
        encode(WorkerMessage{.holding = Holding{2, 4, {3, 120, "00ff"}}}), encode(AgentMessage{}),
        encode(AgentMessage{.kind = AgentMessage::Kind::kYield, .yields = 3})}) {
    texts.push_back(line.substr(0, line.size() - 1));
  }
  texts.push_back(stream);
  return texts;
}

TEST(RendezvousFuzz, messages_with_small_changes_do_no_harm) {
  run_on_small_changes(rendezvous_fuzz, seeds(), "[]{}:,\"\\-+.0123456789eEtrufalsn \n\xff\xc3\x80\x00\x01", 40'000);
}

}  // namespace
}  // namespace lockstep::rendezvous
