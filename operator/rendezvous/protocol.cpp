#include "operator/rendezvous/protocol.h"

#include <fmt/format.h>

namespace lockstep::rendezvous {

Duration heartbeat_every(int protocol, std::size_t members) {
  constexpr std::size_t kManyMembers = 512;
  constexpr Duration kAtMost = std::chrono::seconds(1);
  if (protocol < kProtocolOfPeerBlocks || members <= kManyMembers) return kHeartbeatEvery;
  if (members >= 4 * kManyMembers) return kAtMost;
  return kHeartbeatEvery * static_cast<Duration::rep>(members) / static_cast<Duration::rep>(kManyMembers);
}

Result<std::string> encode_length(std::size_t json_bytes) {
  if (json_bytes > kMaxFrame) {
    return fail(ErrorCode::kExhausted,
                fmt::format("a message of {} bytes is over the limit of {} of a frame", json_bytes, kMaxFrame));
  }
  std::string bytes(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(json_bytes >> (24 - 8 * i) & 0xff);
  return bytes;
}

Result<std::size_t> decode_length(std::string_view four_bytes, std::size_t most) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(four_bytes[i]);
  if (length == 0 || length > most) {
    return fail(ErrorCode::kInvalid, fmt::format("a frame of {} bytes; 1 to {} are allowed", length, most));
  }
  return length;
}

Result<std::optional<std::string>> FrameReader::next() {
  if (buffer_.size() < 4) return std::optional<std::string>();
  LOCKSTEP_TRY(const std::size_t length, decode_length(buffer_, most_));
  if (buffer_.size() < 4 + length) return std::optional<std::string>();
  std::optional<std::string> frame = buffer_.substr(4, length);
  buffer_.erase(0, 4 + length);
  if (buffer_.empty() && buffer_.capacity() > kMaxFirstFrame) buffer_ = std::string();
  return frame;
}

}  // namespace lockstep::rendezvous
