// The peers of a generation on the wire: in parts, once for each connection, and whatever is done to them on the way.
#include "operator/rendezvous/peer_block.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "operator/rendezvous/limits.h"
#include "operator/rendezvous/protocol.h"
#include "tests/sanitizer.h"

namespace lockstep::rendezvous {
namespace {

// Members of one to `most_ranks` ranks each.
Peers random_peers(std::mt19937& random, int members, int most_ranks) {
  std::vector<PeerBlock::Member> made;
  for (int i = 0; i < members; ++i) {
    PeerBlock::Member member{i * 3, static_cast<std::int64_t>(random() % 1000), {}};
    const int ranks = std::uniform_int_distribution<int>(1, most_ranks)(random);
    for (int k = 0; k < ranks; ++k)
      member.addresses.push_back(fmt::format("10.{}.{}.7:{}", i / 256, i % 256, random() % 65536));
    made.push_back(std::move(member));
  }
  return Peers(std::move(made));
}

Go go_of(const Peers& peers) {
  Go go;
  go.id = {1, 1};
  go.peers = peers;
  return go;
}

// The JSON of each frame.
std::vector<std::string> frames_of(const std::vector<Chunk>& chunks) {
  FrameReader reader;
  for (const Chunk& chunk : chunks) reader.feed(*chunk.bytes);
  std::vector<std::string> frames;
  for (auto frame = reader.next(); *frame; frame = reader.next()) frames.push_back(**frame);
  return frames;
}

TEST(PeerBlock, ranks_follow_the_order_of_the_members) {
  const PeerBlock block({{5, 1, {"a:1", "a:2"}}, {2, 9, {"b:1"}}});
  EXPECT_EQ(block.ranks(), 3U);
  EXPECT_EQ(block.addresses(), (std::vector<std::string>{"a:1", "a:2", "b:1"}));
  EXPECT_EQ(block.slots(), (std::vector<int>{5, 5, 2}));
  EXPECT_TRUE(block.lists(1, {"a:2", "b:1"}));
  EXPECT_TRUE(block.lists(2, {"b:1"}));
  EXPECT_FALSE(block.lists(2, {"b:1", "c:1"}));
  EXPECT_FALSE(block.lists(0, {"a:2"}));
}

TEST(PeerBlock, any_block_arrives_as_it_was_in_frames_of_bounded_size) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < sanitizer::cases(60); ++round) {
    const Peers peers = random_peers(random, 1 + static_cast<int>(random() % 700), round % 5 == 0 ? 1024 : 8);
    const auto frames = frames_of(*CoordinatorWriter(2).encode(go_of(peers)));
    CoordinatorReader reader;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      ASSERT_LE(frames[i].size(), kMaxFrame) << "seed " << seed;
      const auto message = reader.decode(frames[i]);
      ASSERT_TRUE(message) << message.error().message << " seed " << seed;
      ASSERT_EQ(message->has_value(), i + 1 == frames.size()) << "seed " << seed;
      if (*message) {
        EXPECT_EQ(std::get<Go>(**message).peers, peers) << "seed " << seed;
      }
    }
  }
}

TEST(PeerBlock, the_largest_member_after_a_part_that_is_nearly_full_fits_its_frame) {
  std::vector<PeerBlock::Member> members;
  for (int i = 0; i < 3; ++i) {
    members.push_back({kMostRanks, 1, std::vector<std::string>(kMaxRanksPerMember, std::string(64, 'f'))});
    members.back().addresses.resize(i == 1 ? kMaxRanksPerMember : kMaxRanksPerMember - 20);
  }
  for (const std::string& frame : frames_of(Peers(std::move(members))->frames())) EXPECT_LE(frame.size(), kMaxFrame);
}

TEST(PeerBlock, connections_share_the_bytes_and_have_them_once) {
  std::mt19937 random(1);
  const Peers peers = random_peers(random, 3000, 8);
  CoordinatorWriter one(2);
  CoordinatorWriter other(2);
  CoordinatorWriter old(1);
  CoordinatorWriter older(1);
  const auto first = *one.encode(go_of(peers));
  const auto second = *other.encode(go_of(peers));
  ASSERT_GT(first.size(), 2U);
  for (std::size_t i = 0; i + 1 < first.size(); ++i) {
    EXPECT_TRUE(first[i].shared);
    EXPECT_EQ(first[i].bytes, second[i].bytes);
  }
  EXPECT_FALSE(first.back().shared);
  EXPECT_LT(first.back().bytes->size(), 1024U);
  EXPECT_EQ(one.encode(Echo{1, peers})->size(), 1U) << "the block is there already";
  const Peers few = random_peers(random, 400, 8);  // protocol 1 lists them in one frame
  const auto listed = *old.encode(go_of(few));
  EXPECT_EQ(listed[1].bytes, (*older.encode(go_of(few)))[1].bytes);
  EXPECT_TRUE(listed[1].shared);
}

TEST(PeerBlock, a_message_that_names_a_block_which_never_came_is_refused) {
  std::mt19937 random(1);
  const auto frames = frames_of(*CoordinatorWriter(2).encode(go_of(random_peers(random, 3000, 8))));
  ASSERT_GT(frames.size(), 2U);
  CoordinatorReader reader;
  EXPECT_FALSE(reader.decode(frames.back()).ok());
  ASSERT_TRUE(reader.decode(frames.front()));
  EXPECT_FALSE(reader.decode(frames.back()).ok()) << "half of a block is none";
}

TEST(PeerBlock, what_is_no_part_of_a_block_is_refused_with_a_reason) {
  for (const char* bad : {R"({"type":"PEERS","members":{}})", R"({"type":"PEERS","members":[1]})",
                          R"({"type":"PEERS","members":[[1,2]]})", R"({"type":"PEERS","members":[[1,2,3]]})",
                          R"({"type":"PEERS","members":[[-1,2,"a"]]})", R"({"type":"PEERS","members":[[1,"2","a"]]})",
                          R"({"type":"PEERS","part":1,"parts":2})", R"({"type":"PEERS","part":0,"parts":0})",
                          R"({"type":"PEERS","digest":"00","part":0,"parts":1,"members":[[1,2,"a:1"]]})",
                          R"({"type":"GO","members":[0],"peers":[]})"}) {
    const auto decoded = CoordinatorReader().decode(bad);
    ASSERT_FALSE(decoded) << bad;
    EXPECT_EQ(decoded.error().code, ErrorCode::kInvalid) << bad;
    EXPECT_FALSE(decoded.error().message.empty());
  }
}

TEST(PeerBlock, a_block_without_end_is_refused) {
  const std::vector<PeerBlock::Member> many(200, {1, 1, std::vector<std::string>(kMaxRanksPerMember, "10.0.0.1:1")});
  PeerParts parts;
  int part = 0;
  while (parts.add("d", part, kMostRanks, many)) ASSERT_LT(++part, 100);
  EXPECT_FALSE(parts.add("d", part + 1, kMostRanks, many).ok());
}

// Frames are dropped, doubled, swapped, taken from another block, or changed. Either the reader refuses one, or the GO
// bears exactly a block that was sent.
TEST(PeerBlock, disturbed_frames_never_make_a_block_that_nobody_sent) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  int refused = 0, taken = 0;
  for (int round = 0; round < sanitizer::cases(200); ++round) {
    const Peers sent[] = {random_peers(random, 800 + static_cast<int>(random() % 800), 16),
                          random_peers(random, 800 + static_cast<int>(random() % 800), 16)};
    CoordinatorWriter writer(2);
    std::vector<std::string> frames = frames_of(*writer.encode(go_of(sent[0])));
    for (const std::string& frame : frames_of(*writer.encode(go_of(sent[1])))) frames.push_back(frame);
    for (int k = static_cast<int>(random() % 3); k > 0; --k) {
      const std::size_t at = random() % frames.size();
      switch (random() % 4) {
        case 0:
          frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(at));
          break;
        case 1:
          frames.push_back(frames[at]);
          break;
        case 2:
          std::swap(frames[at], frames[random() % frames.size()]);
          break;
        default:
          frames[at][random() % frames[at].size()] = static_cast<char>(random());
      }
    }
    CoordinatorReader reader;
    for (const std::string& frame : frames) {
      const auto message = reader.decode(frame);
      if (!message) {
        EXPECT_EQ(message.error().code, ErrorCode::kInvalid) << "seed " << seed;
        ++refused;
        break;
      }
      const auto* go = *message ? std::get_if<Go>(&**message) : nullptr;
      if (go == nullptr || !go->peers) continue;  // a changed byte may make another message of it
      EXPECT_TRUE(go->peers == sent[0] || go->peers == sent[1]) << "seed " << seed;
      ++taken;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace lockstep::rendezvous
