#include "trainer/comm/wire.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <bit>
#include <cstring>
#include <type_traits>

namespace lockstep::trainer::comm {

static_assert(std::endian::native == std::endian::little,
              "the links carry numbers as little-endian machines hold them");

namespace {

constexpr std::array<char, 8> kHelloMagic = {'L', 'K', 'S', 'T', 'R', 'N', 'G', '2'};
constexpr std::uint32_t kOperationMagic = 0x504f4b4c;  // "LKOP"
constexpr std::uint8_t kFrameMagic = 0xA7;

// Walks over a fixed layout; callers have checked the size.
class Writer {
 public:
  explicit Writer(std::byte* to) : to_(to) {}
  template <typename T>
  Writer& put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(to_, &value, sizeof value);
    to_ += sizeof value;
    return *this;
  }

 private:
  std::byte* to_;
};

class Reader {
 public:
  explicit Reader(const void* from) : from_(static_cast<const std::byte*>(from)) {}
  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, from_, sizeof value);
    from_ += sizeof value;
    return value;
  }

 private:
  const std::byte* from_;
};

}  // namespace

size_t size_of(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return 4;
    case DataType::kFloat64:
      return 8;
    case DataType::kInt64:
      return 8;
    case DataType::kUint8:
      return 1;
  }
  return 1;
}

const char* name_of(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    case DataType::kInt64:
      return "int64";
    case DataType::kUint8:
      return "uint8";
  }
  return "unknown";
}

const char* name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kMax:
      return "max";
    case Reduction::kBitOr:
      return "bit-or";
  }
  return "unknown";
}

HelloBytes encode(const Hello& hello) {
  HelloBytes bytes{};
  Writer(bytes.data())
      .put(kHelloMagic)
      .put(hello.channel)
      .put(std::array<std::byte, 7>{})
      .put(hello.rank)
      .put(hello.size)
      .put(hello.generation)
      .put(hello.memory)
      .put(hello.job)
      .put(hello.nonce);
  return bytes;
}

std::optional<Hello> decode_hello(std::span<const std::byte> bytes) {
  if (bytes.size() != kHelloBytes) return std::nullopt;
  Reader reader(bytes.data());
  if (reader.get<std::array<char, 8>>() != kHelloMagic) return std::nullopt;
  const auto channel = reader.get<std::uint8_t>();
  if (channel != 1 && channel != 2) return std::nullopt;
  if (reader.get<std::array<std::byte, 7>>() != std::array<std::byte, 7>{}) return std::nullopt;
  Hello hello;
  hello.channel = Channel{channel};
  hello.rank = reader.get<std::uint32_t>();
  hello.size = reader.get<std::uint32_t>();
  hello.generation = reader.get<std::uint64_t>();
  hello.memory = reader.get<std::uint64_t>();
  hello.job = reader.get<std::array<std::byte, 32>>();
  hello.nonce = reader.get<std::array<std::byte, 16>>();
  return hello;
}

Mac hello_mac(const GenerationKey& key, Role role, const HelloBytes& client, const HelloBytes& server) {
  std::array<std::byte, 1 + 2 * kHelloBytes> text;
  Writer(text.data()).put(role).put(client).put(server);
  Mac mac{};
  unsigned length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), reinterpret_cast<unsigned char*>(mac.data()), &length);
  return mac;
}

bool equal_in_constant_time(const Mac& a, std::span<const std::byte> b) {
  return b.size() == a.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::array<std::byte, 32> sha256(std::string_view text) {
  std::array<std::byte, 32> digest{};
  unsigned length = 0;
  EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &length, EVP_sha256(), nullptr);
  return digest;
}

std::array<std::byte, 16> fresh_nonce() {
  std::array<std::byte, 16> nonce{};
  // getrandom gives 16 bytes whole or not at all; after boot it does not fail.
  while (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
  }
  return nonce;
}

OperationHeaderBytes encode(const OperationHeader& header) {
  OperationHeaderBytes bytes{};
  Writer(bytes.data())
      .put(kOperationMagic)
      .put(header.kind)
      .put(header.type)
      .put(header.reduction)
      .put(std::uint8_t{0})
      .put(header.sequence)
      .put(header.count)
      .put(header.root);
  return bytes;
}

std::optional<OperationHeader> decode_operation_header(std::span<const std::byte> bytes) {
  if (bytes.size() != kOperationHeaderBytes) return std::nullopt;
  Reader reader(bytes.data());
  if (reader.get<std::uint32_t>() != kOperationMagic) return std::nullopt;
  const auto kind = reader.get<std::uint8_t>();
  const auto type = reader.get<std::uint8_t>();
  const auto reduction = reader.get<std::uint8_t>();
  if (kind < 1 || kind > 4 || type > 3 || reduction > 2 || reader.get<std::uint8_t>() != 0) return std::nullopt;
  OperationHeader header;
  header.kind = OperationKind{kind};
  header.type = DataType{type};
  header.reduction = Reduction{reduction};
  header.sequence = reader.get<std::uint64_t>();
  header.count = reader.get<std::uint64_t>();
  header.root = reader.get<std::int32_t>();
  return header;
}

std::string describe(const OperationHeader& header) {
  if (header.kind == OperationKind::kBroadcast) {
    return fmt::format("broadcast {} ({} bytes from rank {})", header.sequence, header.count, header.root);
  }
  if (header.kind == OperationKind::kHandOn) {
    return fmt::format("hand-on {} ({} bytes)", header.sequence, header.count);
  }
  const char* const where = header.kind == OperationKind::kDeviceSum ? " on GPUs" : "";
  return fmt::format("all-reduce {}{} ({} of {} {})", header.sequence, where, name_of(header.reduction), header.count,
                     name_of(header.type));
}

std::string encode_frame(FrameType type, std::string_view payload) {
  payload = payload.substr(0, kMaxFramePayload);
  std::array<std::byte, kFrameHeaderBytes> header{};
  Writer(header.data()).put(kFrameMagic).put(type).put(static_cast<std::uint16_t>(payload.size()));
  std::string frame(reinterpret_cast<const char*>(header.data()), header.size());
  frame += payload;
  return frame;
}

Result<std::optional<Frame>> FrameReader::next() {
  if (used_ < kFrameHeaderBytes) return std::optional<Frame>();
  Reader reader(buffer_.data());
  const auto magic = reader.get<std::uint8_t>();
  const auto type = reader.get<std::uint8_t>();
  const auto length = reader.get<std::uint16_t>();
  const auto reserved = reader.get<std::uint32_t>();
  if (magic != kFrameMagic || type < 1 || type > kLastFrameType || length > kMaxFramePayload || reserved != 0) {
    return fail(ErrorCode::kCorrupt, "the control link carries bytes that are no frame");
  }
  const size_t whole = kFrameHeaderBytes + length;
  if (used_ < whole) return std::optional<Frame>();
  Frame frame{FrameType{type}, std::string(reinterpret_cast<const char*>(buffer_.data()) + kFrameHeaderBytes, length)};
  std::memmove(buffer_.data(), buffer_.data() + whole, used_ - whole);
  used_ -= whole;
  return std::optional<Frame>(std::move(frame));
}

namespace {
constexpr size_t kAbortFixedBytes = 8 + 4 + 4 + 1;
}

std::string encode(const AbortCause& cause) {
  std::array<std::byte, kAbortFixedBytes> fixed;
  Writer(fixed.data()).put(cause.generation).put(cause.origin).put(cause.suspect).put(cause.kind);
  std::string payload(reinterpret_cast<const char*>(fixed.data()), fixed.size());
  payload += std::string_view(cause.text).substr(0, kMaxFramePayload - kAbortFixedBytes);
  return payload;
}

std::optional<AbortCause> decode_abort_cause(std::string_view payload) {
  if (payload.size() < kAbortFixedBytes) return std::nullopt;
  Reader reader(payload.data());
  AbortCause cause;
  cause.generation = reader.get<std::uint64_t>();
  cause.origin = reader.get<std::int32_t>();
  cause.suspect = reader.get<std::int32_t>();
  const auto kind = reader.get<std::uint8_t>();
  if (kind < 1 || kind > 4) return std::nullopt;
  cause.kind = AbortCause::Kind{kind};
  cause.text = payload.substr(kAbortFixedBytes);
  return cause;
}

namespace {
constexpr size_t kInvitationBytes = 4 + 8 + 128;
}

std::string encode(const NcclInvitation& invitation) {
  std::array<std::byte, kInvitationBytes> bytes;
  Writer(bytes.data()).put(invitation.version).put(invitation.chunk_bytes).put(invitation.id);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<NcclInvitation> decode_nccl_invitation(std::string_view payload) {
  if (payload.size() != kInvitationBytes) return std::nullopt;
  Reader reader(payload.data());
  NcclInvitation invitation;
  invitation.version = reader.get<std::int32_t>();
  invitation.chunk_bytes = reader.get<std::uint64_t>();
  invitation.id = reader.get<std::array<std::byte, 128>>();
  return invitation;
}

std::string encode(const NcclAnnouncement& announcement) {
  const OperationHeaderBytes header = encode(announcement.header);
  std::string payload(reinterpret_cast<const char*>(header.data()), header.size());
  payload += announcement.sends ? '\1' : '\0';
  return payload;
}

std::optional<NcclAnnouncement> decode_nccl_announcement(std::string_view payload) {
  if (payload.size() != kOperationHeaderBytes + 1 || (payload.back() & ~1) != 0) return std::nullopt;
  const auto header = decode_operation_header(std::as_bytes(std::span(payload.data(), kOperationHeaderBytes)));
  if (!header) return std::nullopt;
  return NcclAnnouncement{*header, payload.back() == '\1'};
}

}  // namespace lockstep::trainer::comm
