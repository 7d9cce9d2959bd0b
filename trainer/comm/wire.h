// What goes over the links of a ring, as bytes. That is the hello of a connection and its MAC, the header in front of
// every operation, and the frames of a control link. Pure: encoding and decoding only; every input is survived. All
// ranks are little-endian machines (checked at compile time): numbers travel as they lie in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "operator/base/result.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/ring_communicator.h"

namespace lockstep::trainer::comm {

// --- Making a connection -------------------------------------------------------------------------------------------
// client: hello; server: hello, MAC; client: MAC; server: kAccepted. Each MAC covers both hellos and the role.

enum class Channel : std::uint8_t { kControl = 1, kData = 2 };

inline constexpr size_t kHelloBytes = 88;
inline constexpr size_t kMacBytes = 32;
inline constexpr std::byte kAccepted{0x06};

using HelloBytes = std::array<std::byte, kHelloBytes>;
using Mac = std::array<std::byte, kMacBytes>;

struct Hello {
  Channel channel = Channel::kControl;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint64_t generation = 0;
  std::uint64_t memory = 0;           // memory_id() of the sender; 0: it shares none
  std::array<std::byte, 32> job{};    // SHA-256 of the job's uid
  std::array<std::byte, 16> nonce{};  // fresh per connection and side

  bool operator==(const Hello&) const = default;
};

HelloBytes encode(const Hello& hello);
std::optional<Hello> decode_hello(std::span<const std::byte> bytes);  // nothing: not a hello of this protocol

enum class Role : std::uint8_t { kClient = 1, kServer = 2 };
Mac hello_mac(const GenerationKey& key, Role role, const HelloBytes& client, const HelloBytes& server);
bool equal_in_constant_time(const Mac& a, std::span<const std::byte> b);
std::array<std::byte, 32> sha256(std::string_view text);
std::array<std::byte, 16> fresh_nonce();

// --- Operations ----------------------------------------------------------------------------------------------------

enum class OperationKind : std::uint8_t { kAllReduce = 1, kBroadcast = 2, kHandOn = 3, kDeviceSum = 4 };

inline constexpr size_t kOperationHeaderBytes = 40;
using OperationHeaderBytes = std::array<std::byte, kOperationHeaderBytes>;

// In front of the payload of each operation on a data stream; equal on all ranks but for nothing.
struct OperationHeader {
  OperationKind kind = OperationKind::kAllReduce;
  DataType type = DataType::kUint8;       // of bytes: kUint8
  Reduction reduction = Reduction::kSum;  // of bytes: kSum
  std::int32_t root = 0;                  // of a broadcast
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;  // elements

  bool operator==(const OperationHeader&) const = default;
};

OperationHeaderBytes encode(const OperationHeader& header);
std::optional<OperationHeader> decode_operation_header(std::span<const std::byte> bytes);
std::string describe(const OperationHeader& header);  // "all-reduce 7 (sum of 10 float32)"

// --- Control frames ------------------------------------------------------------------------------------------------

enum class FrameType : std::uint8_t {
  kDoorbell = 1,  // bytes or room appeared in shared memory while you slept
  kBye = 2,       // this rank leaves in order: it has all that it needed
  kAbort = 3,     // AbortCause
  kOffer = 4,     // name of this rank's shared-memory segment; empty: none for you
  kAnswer = 5,    // one byte: 1, the offered segment is mapped
  kNcclId = 6,    // NcclInvitation
  kNext = 7,      // NcclAnnouncement: what this rank submitted next
};
inline constexpr std::uint8_t kLastFrameType = 7;

inline constexpr size_t kFrameHeaderBytes = 8;
inline constexpr size_t kMaxFramePayload = 1024;

struct Frame {
  FrameType type = FrameType::kDoorbell;
  std::string payload;
};

std::string encode_frame(FrameType type, std::string_view payload = {});  // payload is cut at kMaxFramePayload

// Turns a byte stream into frames; holds at most one frame.
class FrameReader {
 public:
  // Appends bytes and calls nothing: take them out with next(). At most space() bytes.
  size_t space() const { return buffer_.size() - used_; }
  std::byte* tail() { return buffer_.data() + used_; }
  void added(size_t bytes) { used_ += bytes; }
  // The next whole frame, nothing when more bytes are needed, kCorrupt when these are no frames.
  Result<std::optional<Frame>> next();

 private:
  std::array<std::byte, kFrameHeaderBytes + kMaxFramePayload> buffer_{};
  size_t used_ = 0;
};

struct AbortCause {
  enum class Kind : std::uint8_t { kCancelled = 1, kLost = 2, kMismatch = 3, kStalled = 4 };
  Kind kind = Kind::kCancelled;
  std::uint64_t generation = 0;
  std::int32_t origin = -1;   // the rank that aborted first
  std::int32_t suspect = -1;  // whose link broke, as seen from origin
  std::string text;           // one sentence

  bool operator==(const AbortCause&) const = default;
};

std::string encode(const AbortCause& cause);
std::optional<AbortCause> decode_abort_cause(std::string_view payload);

// Goes round the ring from rank 0: how this generation links over NCCL.
struct NcclInvitation {
  std::int32_t version = 0;         // of rank 0's NCCL
  std::uint64_t chunk_bytes = 0;    // NcclSetup::chunk_bytes of rank 0
  std::array<std::byte, 128> id{};  // of this generation and no other

  bool operator==(const NcclInvitation&) const = default;
};

std::string encode(const NcclInvitation& invitation);
std::optional<NcclInvitation> decode_nccl_invitation(std::string_view payload);

// What a rank is about to do over NCCL, for the rank after it to compare: NCCL itself does not.
struct NcclAnnouncement {
  OperationHeader header;
  bool sends = false;  // of a hand-on: to the rank that is told

  bool operator==(const NcclAnnouncement&) const = default;
};

std::string encode(const NcclAnnouncement& announcement);
std::optional<NcclAnnouncement> decode_nccl_announcement(std::string_view payload);

const char* name_of(DataType type);        // "float32"
const char* name_of(Reduction reduction);  // "sum"

}  // namespace lockstep::trainer::comm
