// The fuzz target on small random changes of what ranks send each other.
#include <gtest/gtest.h>

#include "tests/fuzz/on_small_changes.h"
#include "trainer/comm/wire.h"

extern "C" int ring_fuzz(const std::uint8_t* data, std::size_t size);

namespace lockstep::trainer::comm {
namespace {

template <typename Bytes>
std::string text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(RingFuzz, frames_with_small_changes_do_no_harm) {
  const std::string abort = encode(AbortCause{AbortCause::Kind::kLost, 9, 2, 3, "rank 2 lost rank 3"});
  const std::string invitation = encode(NcclInvitation{.version = 22'809, .chunk_bytes = 1 << 20});
  const std::string next =
      encode(NcclAnnouncement{.header = {.kind = OperationKind::kBroadcast, .root = 5, .count = 9}});
  const std::string stream = encode_frame(FrameType::kDoorbell) + encode_frame(FrameType::kAbort, abort) +
                             encode_frame(FrameType::kNcclId, invitation) + encode_frame(FrameType::kNext, next) +
                             encode_frame(FrameType::kOffer, std::string(kMaxFramePayload, 'n'));
  run_on_small_changes(ring_fuzz,
                       {text(encode(Hello{.rank = 3, .size = 8, .generation = 7})),
                        text(encode(OperationHeader{.type = DataType::kFloat32, .sequence = 77, .count = 12})), abort,
                        invitation, next, stream},
                       all_bytes(), 60'000);
}

}  // namespace
}  // namespace lockstep::trainer::comm
