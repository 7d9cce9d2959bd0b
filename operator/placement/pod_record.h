// What the cluster cache keeps of every pod that is not terminal, whichever scheduler binds it: 64 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace lockstep::placement {

// A uid in 16 bytes: the bits of a UUID, or a hash of a text of another form.
struct Uid {
  std::array<std::uint8_t, 16> bytes{};

  static Uid of(std::string_view text);
  bool operator==(const Uid&) const = default;
  bool is_zero() const { return *this == Uid(); }
};

struct UidHash {
  std::size_t operator()(const Uid& uid) const {
    std::uint64_t halves[2];
    std::memcpy(halves, uid.bytes.data(), sizeof halves);
    // A UUID is random, but for its version; an odd factor spreads what is not.
    return static_cast<std::size_t>((halves[0] ^ (halves[1] * 0x9e3779b97f4a7c15U)) * 0xff51afd7ed558ccdU >> 7U);
  }
};

enum PodFlag : std::uint16_t {
  kBound = 1,         // spec.nodeName is set
  kGated = 2,         // spec.schedulingGates has api::kPlacementGate
  kTerminating = 4,   // metadata.deletionTimestamp is set; it counts until it is gone
  kHostPorts = 8,     // a container asks for a port of the node
  kReservation = 16,  // no pod: a place that is assumed taken until the cache shows its pod
  kOpened = 32,       // of a gated pod or a reservation: it may be bound already, which the watch has not shown yet
};

struct PodRecord {
  Uid uid;                     // of a reservation: zero
  Uid job;                     // of the TrainingJob that owns it; zero for pods of others
  std::int32_t node = -1;      // the NodeId that it takes from, or as Cluster says
  std::int32_t next = -1;      // the other pods of that node
  std::int32_t previous = -1;  //
  std::int32_t requests = -1;  // interned
  std::int32_t priority = 0;   // spec.priority
  std::int32_t slot = -1;      // of a pod of a job
  std::uint32_t started = 0;   // status.startTime, in seconds since 1970; 0: it has not begun
  std::uint16_t flags = 0;     // PodFlag
  std::uint16_t list = 0;      // the last list that held it

  bool is(PodFlag flag) const { return (flags & flag) != 0; }
};
static_assert(sizeof(PodRecord) <= 64, "200,000 of these are kept");

}  // namespace lockstep::placement
