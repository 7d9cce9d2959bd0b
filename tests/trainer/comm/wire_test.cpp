#include "trainer/comm/wire.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace lockstep::trainer::comm {
namespace {

Hello sample_hello() {
  Hello hello;
  hello.channel = Channel::kData;
  hello.rank = 3;
  hello.size = 8;
  hello.generation = 0x1122334455667788;
  hello.memory = 0x99aabbccddeeff01;
  hello.job = sha256("job");
  hello.nonce = fresh_nonce();
  return hello;
}

TEST(Wire, a_hello_comes_back_as_it_was) {
  const Hello hello = sample_hello();
  EXPECT_EQ(decode_hello(encode(hello)), hello);
}

TEST(Wire, a_mac_depends_on_key_role_and_both_hellos) {
  const HelloBytes client = encode(sample_hello());
  const HelloBytes server = encode(sample_hello());
  GenerationKey key{};
  const Mac mac = hello_mac(key, Role::kClient, client, server);
  EXPECT_TRUE(equal_in_constant_time(mac, hello_mac(key, Role::kClient, client, server)));
  EXPECT_FALSE(equal_in_constant_time(mac, hello_mac(key, Role::kServer, client, server)));
  EXPECT_FALSE(equal_in_constant_time(mac, hello_mac(key, Role::kClient, server, client)));
  key[31] = std::byte{1};
  EXPECT_FALSE(equal_in_constant_time(mac, hello_mac(key, Role::kClient, client, server)));
  EXPECT_FALSE(equal_in_constant_time(mac, std::span(mac).first(31)));
}

TEST(Wire, an_operation_header_comes_back_as_it_was) {
  OperationHeader header;
  header.kind = OperationKind::kBroadcast;
  header.type = DataType::kUint8;
  header.root = 5;
  header.sequence = 77;
  header.count = std::uint64_t{1} << 40;
  EXPECT_EQ(decode_operation_header(encode(header)), header);
}

TEST(Wire, an_abort_comes_back_as_it_was_and_a_long_text_is_cut) {
  AbortCause cause{AbortCause::Kind::kLost, 9, 2, 3, "rank 2 lost rank 3"};
  EXPECT_EQ(decode_abort_cause(encode(cause)), cause);
  cause.text = std::string(5000, 'x');
  const std::string payload = encode(cause);
  EXPECT_LE(payload.size(), kMaxFramePayload);
  ASSERT_TRUE(decode_abort_cause(payload).has_value());
  EXPECT_FALSE(decode_abort_cause("short").has_value());
}

// Feeds `bytes` in pieces; the frames that came out, or nothing when the reader refused.
std::optional<std::vector<Frame>> read_frames(const std::string& bytes, std::mt19937& random) {
  FrameReader reader;
  std::vector<Frame> frames;
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t n = std::min({bytes.size() - at, reader.space(), size_t{1} + random() % 700});
    std::memcpy(reader.tail(), bytes.data() + at, n);
    reader.added(n);
    at += n;
    while (true) {
      auto frame = reader.next();
      if (!frame) return std::nullopt;
      if (!frame->has_value()) break;
      frames.push_back(**frame);
    }
  }
  return frames;
}

TEST(Wire, frames_come_out_whole_however_the_bytes_arrive) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    std::string bytes;
    std::vector<std::string> payloads;
    for (int i = 0; i < 20; ++i) {
      payloads.emplace_back(random() % (kMaxFramePayload + 1), static_cast<char>(random()));
      bytes += encode_frame(FrameType::kOffer, payloads.back());
    }
    const auto frames = read_frames(bytes, random);
    ASSERT_TRUE(frames.has_value());
    ASSERT_EQ(frames->size(), payloads.size());
    for (size_t i = 0; i < payloads.size(); ++i) EXPECT_EQ((*frames)[i].payload, payloads[i]);
  }
}

TEST(Wire, changed_bytes_are_refused_or_read_but_never_break_the_reader) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (int i = 0; i < 5; ++i) bytes += encode_frame(FrameType::kAbort, encode(AbortCause{.text = "why"}));
    for (unsigned i = 0; i <= random() % 5; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (const auto frames = read_frames(bytes, random)) {
      for (const Frame& frame : *frames) (void)decode_abort_cause(frame.payload);
    }
    OperationHeaderBytes header = encode(OperationHeader{});
    for (unsigned i = 0; i <= random() % 5; ++i) header[random() % header.size()] = std::byte(random() & 255);
    if (const auto decoded = decode_operation_header(header)) (void)describe(*decoded);
    HelloBytes hello = encode(sample_hello());
    hello[random() % hello.size()] = std::byte(random() & 255);
    (void)decode_hello(hello);
  }
}

TEST(Wire, a_frame_that_is_too_long_is_refused_before_it_is_gathered) {
  std::string bytes = encode_frame(FrameType::kOffer, "x");
  bytes[3] = '\x7f';  // the length's high byte
  std::mt19937 random(1);
  EXPECT_FALSE(read_frames(bytes, random).has_value());
}

}  // namespace
}  // namespace lockstep::trainer::comm
