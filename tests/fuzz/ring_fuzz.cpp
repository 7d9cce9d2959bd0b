// Anything at all on the links between ranks: the decoders refuse it, or it survives a round trip.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "trainer/comm/wire.h"

extern "C" int ring_fuzz(const std::uint8_t* data, std::size_t size);

namespace {

using namespace lockstep::trainer::comm;

template <typename Decode, typename Input>
void goes_round(Decode decode, Input input) {
  if (const auto value = decode(input)) {
    const auto bytes = encode(*value);
    const auto again = decode(Input(bytes.data(), bytes.size()));
    if (!again || !(*again == *value)) std::abort();
  }
}

void payload(std::string_view text) {
  goes_round(decode_abort_cause, text);
  goes_round(decode_nccl_invitation, text);
  goes_round(decode_nccl_announcement, text);
}

void frames(std::span<const std::byte> bytes) {
  FrameReader reader;
  while (!bytes.empty()) {
    const std::size_t taken = std::min(reader.space(), bytes.size());
    if (taken == 0) std::abort();  // a reader that is full has a frame
    std::memcpy(reader.tail(), bytes.data(), taken);
    reader.added(taken);
    bytes = bytes.subspan(taken);
    while (true) {
      const auto frame = reader.next();
      if (!frame) return;
      if (!*frame) break;
      payload((*frame)->payload);
    }
  }
}

}  // namespace

extern "C" int ring_fuzz(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  goes_round(decode_hello, bytes);
  goes_round(decode_operation_header, bytes);
  if (size <= kMaxFramePayload) payload(std::string_view(reinterpret_cast<const char*>(data), size));
  frames(bytes);
  return 0;
}
